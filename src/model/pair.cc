#include "model/pair.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/json.h"
#include "model/sort_nodes.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr const char* kKey = "seqto.pair";
constexpr std::string_view kHidden = "encoder_hidden_states", kLast = "last_hidden_state";

using Renamed = std::unordered_map<std::string, std::string>;

[[noreturn]] void fail(const std::string& found, const std::string& expected) {
  throw Error(Code::kInvalidInput, fmt::format("[join] {} found; {}", found, expected));
}

std::vector<std::string> names_of(std::span<const ValueInfo> values) {
  std::vector<std::string> names;
  for (const ValueInfo& v : values) names.push_back(v.name);
  return names;
}

const ValueInfo* named(std::span<const ValueInfo> values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &ValueInfo::name);
  return found == values.end() ? nullptr : &*found;
}

// --- joining

// Of tensors and nodes.
struct Used {
  explicit Used(const Graph& graph) {
    for (const auto* list : {&graph.inputs, &graph.outputs})
      for (const ValueInfo& v : *list) tensors.insert(v.name);
    for (const Initializer& i : graph.initializers) tensors.insert(i.name);
    for (const Node& node : graph.nodes) {
      nodes.insert(node.name);
      tensors.insert(node.outputs.begin(), node.outputs.end());
      for (const Attribute& a : node.attributes)
        if (const auto* body = std::get_if<OpaqueAttribute>(&a.value))
          captured.insert(body->captures.begin(), body->captures.end());
    }
    tensors.erase("");
  }
  std::set<std::string> tensors, nodes, captured;
};

// Nothing inside bodies: what they capture keeps its name.
void rename(Graph& graph, const Renamed& to) {
  const auto apply = [&](std::string& name) {
    if (const auto found = to.find(name); found != to.end()) name = found->second;
  };
  for (auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (ValueInfo& v : *list) {
      if (!to.contains(v.name)) continue;
      apply(v.name);
      v.proto.clear();  // it says the name
    }
  for (Initializer& i : graph.initializers) apply(i.name);
  for (Node& node : graph.nodes) {
    std::ranges::for_each(node.inputs, apply);
    std::ranges::for_each(node.outputs, apply);
  }
}

std::string unused(std::string name, const std::set<std::string>& taken, std::string_view prefix) {
  while (taken.contains(name)) name = fmt::format("{}{}", prefix, name);
  return name;
}

// Which input of the decoder comes from which output, or input, of the encoder.
struct Meeting {
  std::map<std::string, std::string> outputs, inputs;  // by the decoder's name
};

Meeting where_they_meet(const Graph& encoder, const Graph& decoder) {
  const std::vector<ValueInfo> given = encoder.free_inputs();
  Meeting meeting;
  for (const ValueInfo& input : decoder.free_inputs()) {
    const ValueInfo* from = named(encoder.outputs, input.name);
    if (!from && input.name == kHidden)
      from = encoder.outputs.size() == 1 ? &encoder.outputs.front() : named(encoder.outputs, kLast);
    if (from) meeting.outputs[input.name] = from->name;
    else if (input.name.starts_with("encoder_") && named(given, input.name.substr(8)))
      meeting.inputs[input.name] = input.name.substr(8);
  }
  if (meeting.outputs.empty())
    fail(fmt::format("outputs {} of the first model and inputs {} of the second",
                     fmt::join(names_of(encoder.outputs), ", "), fmt::join(names_of(decoder.free_inputs()), ", ")),
         "an input called as an output, or encoder_hidden_states for last_hidden_state, expected; give the encoder, "
         "then its decoder without a cache");
  std::set<std::string> read;
  for (const auto& [input, output] : meeting.outputs)
    if (!read.insert(output).second) fail("two inputs for the output " + output, "one expected");
  for (const ValueInfo& output : encoder.outputs)
    if (!read.contains(output.name))
      fail(fmt::format("an output {} of the first model that the second does not read", output.name),
           "none expected; export the encoder without it");
  return meeting;
}

// The opsets of both, at the higher version of ai.onnx.
void align_opsets(Model& a, Model& b) {
  const int64_t version = std::max(a.opset(), b.opset());
  for (Model* m : {&a, &b})
    if (m->opset() < version) *m = convert_opset(*m, version);
  for (const Opset& opset : b.opsets) {
    const auto same = std::ranges::find(a.opsets, opset.domain, &Opset::domain);
    if (same == a.opsets.end()) a.opsets.push_back(opset);
    else if (same->version != opset.version)
      fail(fmt::format("versions {} and {} of the operators of {}", same->version, opset.version, opset.domain),
           "one expected; export both models alike");
  }
}

// What keeps names of the decoder apart from the encoder's. What bodies of the decoder read keeps its name: the
// encoder's then gives way.
void keep_apart(Model& encoder, Model& decoder, const Meeting& meeting, Half& first, Half& second) {
  const Used ours(encoder.graph), theirs(decoder.graph);
  std::set<std::string> taken = ours.tensors;
  taken.insert(theirs.tensors.begin(), theirs.tensors.end());
  const std::vector<std::string> encoder_inputs = names_of(encoder.graph.free_inputs());
  Renamed in_encoder, in_decoder;
  // The tensors in which they meet are called as the decoder calls them.
  for (const auto& [input, output] : meeting.outputs)
    if (input != output) in_encoder[output] = input;
  for (const std::string& name : theirs.tensors) {
    if (!ours.tensors.contains(name) || meeting.outputs.contains(name)) continue;
    if (!theirs.captured.contains(name)) {
      in_decoder[name] = unused("decoder_" + name, taken, "decoder_");
      taken.insert(in_decoder[name]);
    } else if (!ours.captured.contains(name) && std::ranges::count(encoder_inputs, name) == 0) {
      in_encoder[name] = unused("encoder_" + name, taken, "encoder_");
      taken.insert(in_encoder[name]);
    } else {
      fail(fmt::format("a tensor {} in both models that a body of the second reads", name),
           "names of their own expected; export the decoder without If nodes, as decoder_model.onnx");
    }
  }
  // An inner tensor of the encoder may be called as one in which they meet.
  for (const auto& [input, output] : meeting.outputs)
    if (input != output && ours.tensors.contains(input))
      in_encoder[input] = unused("encoder_" + input, taken, "encoder_");
  for (const ValueInfo& v : encoder.graph.free_inputs()) first.inputs.emplace_back(v.name, v.name);
  for (const ValueInfo& v : encoder.graph.outputs)
    first.outputs.emplace_back(in_encoder.contains(v.name) ? in_encoder[v.name] : v.name, v.name);
  const auto in_pair = [&](const std::string& name) { return in_decoder.contains(name) ? in_decoder[name] : name; };
  for (const ValueInfo& v : decoder.graph.free_inputs()) second.inputs.emplace_back(in_pair(v.name), v.name);
  for (const ValueInfo& v : decoder.graph.outputs) second.outputs.emplace_back(in_pair(v.name), v.name);
  rename(encoder.graph, in_encoder);
  rename(decoder.graph, in_decoder);
  for (Node& node : decoder.graph.nodes)
    if (ours.nodes.contains(node.name) && !node.name.empty()) node.name = unused(node.name, ours.nodes, "decoder/");
}

nlohmann::json to_json(const Half& half) {
  return {{"file", half.file}, {"inputs", half.inputs}, {"outputs", half.outputs}};
}

// A model may come from anybody: its files lie where they should, and a pair has two.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of("/\\") == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Half half_from(const nlohmann::json& json) {
  return {json.at("file").get<std::string>(), json.at("inputs").get<Names>(), json.at("outputs").get<Names>()};
}

nlohmann::json to_json(const ValueInfo& value) {
  nlohmann::json shape;
  if (value.shape) {
    shape = nlohmann::json::array();
    for (const Dimension& d : *value.shape)
      shape.push_back(d.value >= 0 ? nlohmann::json(d.value) : nlohmann::json(d.parameter));
  }
  return {{"name", value.name}, {"type", static_cast<int>(value.type)}, {"shape", shape}};
}

ValueInfo value_from(const nlohmann::json& json) {
  ValueInfo value{json.at("name").get<std::string>(), static_cast<DataType>(json.at("type").get<int>()), {}, {}};
  if (json.at("shape").is_null()) return value;
  value.shape.emplace();
  for (const auto& d : json.at("shape"))
    value.shape->push_back(d.is_string() ? Dimension{-1, d.get<std::string>()} : Dimension{d.get<int64_t>(), ""});
  return value;
}

nlohmann::json to_json(const Pair& pair) {
  nlohmann::json json{{"encoder", to_json(pair.encoder)}, {"decoder", to_json(pair.decoder)}, {"shared", pair.shared}};
  for (const ValueInfo& output : pair.given) json["given"].push_back(to_json(output));
  for (const ValueInfo& link : pair.links) json["links"].push_back(to_json(link));
  if (const auto& w = pair.writing)
    json["writing"] = {{"start", w->start},
                       {"ends", w->ends},
                       {"forced", w->forced},
                       {"suppressed", w->suppressed},
                       {"suppressed_first", w->suppressed_first},
                       {"most", w->most}};
  return json;
}

Pair pair_from(const nlohmann::json& json) {
  Pair pair{half_from(json.at("encoder")), half_from(json.at("decoder")), {}, {}, json.at("shared").get<Names>(), {}};
  for (const auto& output : json.at("given")) pair.given.push_back(value_from(output));
  for (const auto& link : json.at("links")) pair.links.push_back(value_from(link));
  if (!json.contains("writing")) return pair;
  const auto& w = json.at("writing");
  pair.writing = Writing{w.at("start").get<int64_t>(),
                         w.at("ends").get<std::vector<int64_t>>(),
                         w.at("forced").get<std::vector<std::pair<int64_t, int64_t>>>(),
                         w.at("suppressed").get<std::vector<int64_t>>(),
                         w.at("suppressed_first").get<std::vector<int64_t>>(),
                         w.at("most").get<int64_t>()};
  return pair;
}

// --- taking apart

// What of the graph is needed to compute `outputs` where `inputs` are given.
Graph part(const Graph& whole, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::unordered_map<std::string, size_t> maker;
  for (size_t i = 0; i < whole.nodes.size(); ++i)
    for (const std::string& name : whole.nodes[i].outputs)
      if (!name.empty()) maker[name] = i;
  std::unordered_set<std::string> wanted(inputs.begin(), inputs.end());
  std::vector<char> kept(whole.nodes.size());
  std::vector<std::string> open = outputs;
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    if (name.empty() || !wanted.insert(name).second) continue;
    const auto made = maker.find(name);
    if (made == maker.end() || kept[made->second]) continue;
    kept[made->second] = 1;
    const Node& node = whole.nodes[made->second];
    for_each_read(node, [&](const std::string& input) { open.push_back(input); });
    open.insert(open.end(), node.outputs.begin(), node.outputs.end());  // their types stay known
  }
  Graph graph{.name = whole.name};
  for (size_t i = 0; i < whole.nodes.size(); ++i)
    if (kept[i]) graph.nodes.push_back(whole.nodes[i]);
  for (const Initializer& i : whole.initializers)
    if (wanted.contains(i.name)) graph.initializers.push_back(i);
  for (const ValueInfo& v : whole.value_info)
    if (wanted.contains(v.name)) graph.value_info.push_back(v);
  for (const ValueInfo& v : whole.free_inputs())
    if (wanted.contains(v.name) && std::ranges::count(inputs, v.name) == 0)
      throw Error(Code::kInvalidInput,
                  fmt::format("[pair] a model found that reads {} on both sides of where encoder and decoder met; one "
                              "written by `seqto tune ENCODER DECODER` in QDQ form expected",
                              v.name));
  return graph;
}

std::vector<std::string> firsts(const Names& names) {
  std::vector<std::string> result;
  for (const auto& [joined, own] : names) result.push_back(joined);
  return result;
}

Model taken(const Model& joined, const Half& half, std::span<const ValueInfo> links) {
  Model model = joined;
  std::erase_if(model.metadata, [](const auto& entry) { return entry.first == kKey; });
  model.graph = part(joined.graph, firsts(half.inputs), firsts(half.outputs));
  const auto value = [&](const std::string& name) {
    for (const auto& list :
         {std::span<const ValueInfo>(joined.graph.inputs), std::span<const ValueInfo>(joined.graph.outputs), links})
      if (const ValueInfo* found = named(list, name)) return *found;
    throw Error(Code::kInvalidInput,
                fmt::format("[pair] no tensor {} found; one of encoder and decoder expected", name));
  };
  for (const std::string& name : firsts(half.inputs)) model.graph.inputs.push_back(value(name));
  for (const std::string& name : firsts(half.outputs)) model.graph.outputs.push_back(value(name));
  Renamed own;
  for (const auto* names : {&half.inputs, &half.outputs})
    for (const auto& [in_pair, before] : *names)
      if (in_pair != before) own[in_pair] = before;
  std::erase_if(model.graph.value_info, [&](const ValueInfo& v) {
    return named(model.graph.inputs, v.name) || named(model.graph.outputs, v.name);
  });
  rename(model.graph, own);
  return model;
}

std::vector<int64_t> integers(const nlohmann::json& json) {
  if (json.is_number_integer()) return {json.get<int64_t>()};
  std::vector<int64_t> all;
  if (json.is_array())
    for (const auto& v : json)
      if (v.is_number_integer()) all.push_back(v.get<int64_t>());
  return all;
}

}  // namespace

Model join(const NamedModel& encoder, const NamedModel& decoder, std::optional<Writing> writing) {
  Model first = encoder.model, second = decoder.model;
  align_opsets(first, second);
  const Meeting meeting = where_they_meet(first.graph, second.graph);
  Pair pair{.encoder = {encoder.file, {}, {}},
            .decoder = {decoder.file, {}, {}},
            .given = {},
            .links = {},
            .writing = std::move(writing)};
  if (pair.encoder.file == pair.decoder.file) pair.decoder.file += "_decoder";
  keep_apart(first, second, meeting, pair.encoder, pair.decoder);
  Graph &graph = first.graph, &behind = second.graph;
  pair.given = graph.outputs;
  pair.shared.assign(meeting.inputs.begin(), meeting.inputs.end());
  for (const auto& [input, other] : pair.shared)
    graph.nodes.push_back({.name = "pair/" + input, .op_type = "Identity", .inputs = {other}, .outputs = {input}});
  for (const ValueInfo& input : behind.inputs) {
    const bool meets = meeting.outputs.contains(input.name) || meeting.inputs.contains(input.name);
    if (!meets) {
      graph.inputs.push_back(input);
      continue;
    }
    pair.links.push_back(input);
    graph.value_info.push_back(input);
  }
  graph.outputs = behind.outputs;
  std::ranges::move(behind.nodes, std::back_inserter(graph.nodes));
  std::ranges::move(behind.value_info, std::back_inserter(graph.value_info));
  std::ranges::move(behind.initializers, std::back_inserter(graph.initializers));
  first.external_files.insert(first.external_files.end(), second.external_files.begin(), second.external_files.end());
  first.rest += second.rest;
  first.ir_version = std::max(first.ir_version, second.ir_version);
  first.metadata.emplace_back(kKey, to_json(pair).dump());
  return first;
}

std::optional<Pair> pair_of(const Model& model) {
  for (const auto& [key, value] : model.metadata) {
    if (key != kKey) continue;
    try {
      Pair pair = pair_from(parse_json(value));
      const std::string &first = pair.encoder.file, &second = pair.decoder.file;
      if (is_file_name(first) && is_file_name(second) && first != second) return pair;
      return {};
    } catch (const nlohmann::json::exception&) {
      return {};
    }
  }
  return {};
}

std::pair<Model, Model> take_apart(const Model& joined, const Pair& pair) {
  return {taken(joined, pair.encoder, pair.given), taken(joined, pair.decoder, pair.links)};
}

std::optional<Writing> parse_writing(const std::string& text, const std::string& where) {
  const nlohmann::json json = parse_json_if_any(text);
  if (!json.is_object())
    throw Error(Code::kInvalidInput, fmt::format("[join] {}: no JSON object found; one with decoder_start_token_id and "
                                                 "eos_token_id expected",
                                                 where));
  const auto list = [&](const char* key) {
    return json.contains(key) ? integers(json.at(key)) : std::vector<int64_t>();
  };
  Writing w;
  const std::vector<int64_t> start = list("decoder_start_token_id"), most = list("max_length");
  if (start.empty()) return {};
  w.start = start.front();
  w.ends = list("eos_token_id");
  w.suppressed = list("suppress_tokens");
  w.suppressed_first = list("begin_suppress_tokens");
  if (json.contains("bad_words_ids") && json.at("bad_words_ids").is_array())
    for (const auto& word : json.at("bad_words_ids"))
      // A text has to end: transformers passes over words that are an end.
      if (const auto tokens = integers(word); tokens.size() == 1 && std::ranges::count(w.ends, tokens.front()) == 0)
        w.suppressed.push_back(tokens.front());
  if (!most.empty()) w.most = most.front();
  if (json.contains("forced_decoder_ids") && json.at("forced_decoder_ids").is_array())
    for (const auto& entry : json.at("forced_decoder_ids"))
      if (const auto numbers = integers(entry); numbers.size() == 2) w.forced.emplace_back(numbers[0], numbers[1]);
  if (const auto first = list("forced_bos_token_id"); !first.empty()) w.forced.emplace_back(1, first.front());
  return w;
}

}  // namespace seqto::internal
