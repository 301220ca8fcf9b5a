// Lists of layers to leave in float: onnxruntime's, NNCF's, Quark's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <regex>

#include "base/json.h"
#include "base/names.h"
#include "model/graph_view.h"
#include "quantization/dialects/dialects.h"
#include "seqto/error.h"

namespace seqto::internal {

using nlohmann::json;

std::vector<std::string> strings(const json& list) { return list.get<std::vector<std::string>>(); }

Exclusions::Exclusions(const Model& model) : model_(model) {
  for (const Node& node : model.graph.nodes) {
    names_.push_back(node.name);
    types_.push_back(node.op_type);
  }
}

void Exclusions::missing(const char* kind, const std::string& text, Unmatched unmatched,
                         const std::vector<std::string>& known) {
  if (unmatched == Unmatched::kNote) {
    result.notes.push_back(fmt::format("{} '{}' matches nothing in the model", kind, text));
    return;
  }
  throw Error(Code::kInvalidInput, fmt::format("[plan] {} '{}' matches nothing in the model; the nearest are: {}; "
                                               "correct it",
                                               kind, text, fmt::join(nearest_names(text, known), ", ")));
}

void Exclusions::name(const std::string& name, Unmatched unmatched) {
  if (std::find(names_.begin(), names_.end(), name) == names_.end()) missing("node", name, unmatched, names_);
  else excluded_.insert(name);
}

void Exclusions::pattern(const std::string& pattern, bool anchored, Unmatched unmatched) {
  std::regex regex;
  try {
    regex.assign(pattern);
  } catch (const std::regex_error& error) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[plan] the pattern '{}' found: {}; a regular expression was expected; lookbehind and named "
                    "groups are not known here, name the nodes instead",
                    pattern, error.what()));
  }
  const auto how = anchored ? std::regex_constants::match_continuous : std::regex_constants::match_default;
  bool any = false;
  for (const std::string& node : names_) {
    if (!std::regex_search(node, regex, how)) continue;
    any = true;
    excluded_.insert(node);
  }
  if (!any) missing("pattern", pattern, unmatched, names_);
}

void Exclusions::op_type(const std::string& type, Unmatched unmatched) {
  bool any = false;
  for (size_t i = 0; i < types_.size(); ++i) {
    if (types_[i] != type) continue;
    any = true;
    excluded_.insert(names_[i]);
  }
  if (!any) missing("op type", type, unmatched, types_);
}

std::set<size_t> Exclusions::reached(const std::set<size_t>& from, bool forwards) const {
  const Edges edges(model_.graph);
  std::set<size_t> seen = from;
  std::vector<size_t> open(from.begin(), from.end());
  const auto reach = [&](const Node& node) {
    if (const size_t i = edges.place(node); seen.insert(i).second) open.push_back(i);
  };
  while (!open.empty()) {
    const Node& node = model_.graph.nodes[open.back()];
    open.pop_back();
    if (forwards) {
      for (const auto& tensor : node.outputs)
        for (const Node* reader : edges.readers(tensor)) reach(*reader);
    } else {
      for (const auto& tensor : node.inputs)
        if (const Node* producer = edges.producer(tensor)) reach(*producer);
    }
  }
  return seen;
}

void Exclusions::between(const std::vector<std::string>& starts, const std::vector<std::string>& ends,
                         Unmatched unmatched) {
  const auto positions = [&](const std::vector<std::string>& wanted) {
    std::set<size_t> found;
    for (const auto& name : wanted) {
      const auto it = std::find(names_.begin(), names_.end(), name);
      if (it == names_.end()) missing("node", name, unmatched, names_);
      else found.insert(static_cast<size_t>(it - names_.begin()));
    }
    return found;
  };
  const std::set<size_t> behind = reached(positions(starts), true), before = reached(positions(ends), false);
  bool any = false;
  for (const size_t i : behind) {
    if (!before.contains(i)) continue;
    any = true;
    excluded_.insert(names_[i]);
  }
  if (!any)
    missing("subgraph", fmt::format("{} to {}", fmt::join(starts, ", "), fmt::join(ends, ", ")), unmatched, names_);
}

ForeignPlan Exclusions::plan() const {
  ForeignPlan done = result;
  done.plan = uniform_plan(model_, Scheme::kInt8, {excluded_.begin(), excluded_.end()});
  return done;
}

std::vector<LayerId> excluded_layers(const ForeignPlan& plan, const Model& model, std::vector<std::string>& notes) {
  std::vector<LayerId> excluded;
  std::map<std::string_view, int> others;
  for (const auto& [layer, scheme] : plan.plan.schemes)
    if (scheme != Scheme::kInt8 && scheme != Scheme::kFloat32) ++others[to_string(scheme)];
  for (const Layer& layer : layers(model)) {
    const bool could = std::find(layer.schemes.begin(), layer.schemes.end(), Scheme::kInt8) != layer.schemes.end();
    const auto it = plan.plan.schemes.find(layer.id);
    if (could && (it == plan.plan.schemes.end() || it->second != Scheme::kInt8)) excluded.push_back(layer.id);
  }
  for (const auto& [scheme, count] : others)
    notes.push_back(fmt::format("{} layer{} in {}: a list of exclusions has no word for it, float32 there", count,
                                count == 1 ? "" : "s", scheme));
  return excluded;
}

// --- onnxruntime -----------------------------------------------------------------------------------------------------

namespace {

std::string quant_type_name(std::string type) {  // "uint8"
  const size_t letters = type.starts_with('u') ? 2 : 1;
  for (size_t i = 0; i < letters; ++i) type[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(type[i])));
  return "Q" + type;
}

// Lists and overrides at one level of the file.
void take_onnxruntime(const json& part, Exclusions& exclusions, const Model& model) {
  if (part.contains("nodes_to_exclude") && !part["nodes_to_exclude"].is_null())
    for (const auto& name : strings(part["nodes_to_exclude"])) exclusions.name(name, Exclusions::Unmatched::kNote);
  const auto only = [&](const char* key, auto of) {
    if (!part.contains(key) || part[key].is_null() || part[key].empty()) return;
    const std::vector<std::string> wanted = strings(part[key]);
    for (const Node& node : model.graph.nodes)
      if (std::find(wanted.begin(), wanted.end(), of(node)) == wanted.end())
        exclusions.name(node.name, Exclusions::Unmatched::kNote);
  };
  only("nodes_to_quantize", [](const Node& node) { return node.name; });
  only("op_types_to_quantize", [](const Node& node) { return node.op_type; });
  if (part.contains("TensorQuantOverrides"))
    exclusions.result.encodings = tensor_overrides_from_json(part["TensorQuantOverrides"].dump());
}

}  // namespace

ForeignPlan read_onnxruntime(const json& file, const Model& model) {
  Exclusions exclusions(model);
  if (file.is_array()) {
    for (const auto& name : strings(file)) exclusions.name(name, Exclusions::Unmatched::kNote);
    return exclusions.plan();
  }
  bool any = false;
  for (const char* key : {"", "quantization", "options", "extra_options"}) {
    const json& part = *key ? file.value(key, json::object()) : file;
    any |= part.contains("nodes_to_exclude") || part.contains("nodes_to_quantize") ||
           part.contains("op_types_to_quantize") || part.contains("TensorQuantOverrides");
    take_onnxruntime(part, exclusions, model);
  }
  if (!any) exclusions.result.encodings = tensor_overrides_from_json(file.dump());
  return exclusions.plan();
}

PlanText write_onnxruntime(const ForeignPlan& plan, const Model& model) {
  PlanText result;
  json file{{"nodes_to_exclude", excluded_layers(plan, model, result.notes)}};
  if (!plan.encodings.empty()) {
    json overrides = parse_json(tensor_overrides_to_json(plan.encodings));
    // As QuantType.from_string() reads them: QInt8.
    for (json& entries : overrides)
      for (json& entry : entries)
        if (auto type = entry.find("quant_type"); type != entry.end())
          *type = quant_type_name(type->get<std::string>());
    file["extra_options"]["TensorQuantOverrides"] = std::move(overrides);
  }
  result.text = file.dump(1) + "\n";
  return result;
}

// --- NNCF ------------------------------------------------------------------------------------------------------------

ForeignPlan read_nncf(const json& file, const Model& model) {
  Exclusions exclusions(model);
  const json* scope = &file;
  for (const char* key : {"ignored_scope", "ignored_scopes"})
    if (file.is_object() && file.contains(key)) scope = &file.at(key);
  if (scope->is_array()) {
    for (const auto& entry : strings(*scope)) {
      if (entry.starts_with("{re}")) exclusions.pattern(entry.substr(4), true, Exclusions::Unmatched::kError);
      else exclusions.name(entry, Exclusions::Unmatched::kError);
    }
    return exclusions.plan();
  }
  const auto unmatched = scope->value("validate", true) ? Exclusions::Unmatched::kError : Exclusions::Unmatched::kNote;
  const auto list = [&](const char* key) { return strings(scope->value(key, json::array())); };
  for (const auto& name : list("names")) exclusions.name(name, unmatched);
  for (const auto& pattern : list("patterns")) exclusions.pattern(pattern, true, unmatched);
  for (const auto& type : list("types")) exclusions.op_type(type, unmatched);
  for (const json& subgraph : scope->value("subgraphs", json::array()))
    exclusions.between(strings(subgraph.at("inputs")), strings(subgraph.at("outputs")), unmatched);
  return exclusions.plan();
}

PlanText write_nncf(const ForeignPlan& plan, const Model& model) {
  PlanText result;
  nlohmann::ordered_json scope{{"names", excluded_layers(plan, model, result.notes)},
                               {"patterns", json::array()},
                               {"types", json::array()},
                               {"subgraphs", json::array()},
                               {"validate", true}};
  result.text = nlohmann::ordered_json{{"ignored_scope", scope}}.dump(1) + "\n";
  return result;
}

// --- Quark -----------------------------------------------------------------------------------------------------------

ForeignPlan read_quark(const json& file, const Model& model) {
  Exclusions exclusions(model);
  const json list = file.is_array() ? file : file.value("exclude", json::array());
  for (const json& entry : list) {
    if (entry.is_array()) {
      exclusions.between(strings(entry.at(0)), strings(entry.at(1)), Exclusions::Unmatched::kError);
      continue;
    }
    const auto text = entry.get<std::string>();
    if (text.starts_with('^')) exclusions.pattern(text, false, Exclusions::Unmatched::kError);
    else exclusions.name(text, Exclusions::Unmatched::kNote);
  }
  if (!file.is_object()) return exclusions.plan();
  for (const json& batch : file.value("layer_type_config", json::array())) {
    if (!batch.at(0).is_null()) continue;
    for (const auto& type : strings(batch.at(1))) exclusions.op_type(type, Exclusions::Unmatched::kNote);
  }
  if (const json specific = file.value("specific_layer_config", json::array()); !specific.empty())
    exclusions.result.notes.push_back(
        fmt::format("specific_layer_config with {} entries is not taken over: those layers are int8", specific.size()));
  return exclusions.plan();
}

PlanText write_quark(const ForeignPlan& plan, const Model& model) {
  PlanText result;
  result.text = json{{"exclude", excluded_layers(plan, model, result.notes)}}.dump(1) + "\n";
  return result;
}

}  // namespace seqto::internal
