// seqto inspect: what is in a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "group_flags.h"
#include "hub_flags.h"
#include "print_json.h"
#include "seqto/explain.h"
#include "seqto/report.h"
#include "terminal.h"

namespace seqto::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string shape_text(const ValueInfo& v) {
  if (!v.shape) return "?";
  std::vector<std::string> dims;
  for (const Dimension& d : *v.shape)
    dims.push_back(d.value >= 0 ? std::to_string(d.value) : d.parameter.empty() ? "?" : d.parameter);
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Json infos_json(const std::vector<ValueInfo>& infos) {
  Json list = Json::array();
  for (const ValueInfo& v : infos) {
    Json shape = nullptr;
    if (v.shape) {
      shape = Json::array();
      for (const Dimension& d : *v.shape) {
        if (d.value >= 0) shape.push_back(d.value);
        else shape.push_back(d.parameter);
      }
    }
    list.push_back({{"name", v.name}, {"type", to_string(v.type)}, {"shape", shape}});
  }
  return list;
}

std::vector<std::string> names_of(const std::vector<Scheme>& schemes) {
  std::vector<std::string> names;
  for (Scheme s : schemes) names.emplace_back(to_string(s));
  return names;
}

bool takes(const Layer& layer, Scheme scheme) { return std::ranges::count(layer.schemes, scheme) > 0; }
bool has_weights(const Layer& layer) { return takes(layer, Scheme::kInt8Weights); }

// 0: weights that can be quantized; 1: none, but a node that can; 2: one that cannot.
int rank_of(const Layer& layer) { return has_weights(layer) ? 0 : layer.quantizable ? 1 : 2; }

std::string quantizable_text(const Layer& layer) {
  if (layer.quantizable) return "yes";
  if (!has_weights(layer)) return "no: " + layer.reason;
  return takes(layer, Scheme::kInt8Dynamic) ? "weights, dynamic" : "weights";
}

// By rank up to `last`, each in graph order.
std::vector<TableRow> rows_of(const std::vector<Layer>& layers, int last) {
  std::vector<TableRow> rows;
  for (int rank = 0; rank <= last; ++rank)
    for (const Layer& l : layers)
      if (rank_of(l) == rank)
        rows.push_back({l.id, l.op_type, format_shape(l.output_shape, "x"),
                        l.weight_bytes ? format_bytes(l.weight_bytes) : "", quantizable_text(l)});
  return rows;
}

// "12 Constant, 3 Shape": the most frequent first.
std::string counted_types(const std::vector<Layer>& layers, int rank) {
  std::map<std::string, int> counts;
  for (const Layer& l : layers)
    if (rank_of(l) == rank) ++counts[l.op_type];
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [type, count] : counts) order.emplace_back(-count, type);
  std::ranges::sort(order);
  std::vector<std::string> words;
  for (const auto& [count, type] : order) words.push_back(fmt::format("{} {}", -count, type));
  return fmt::format("{}", fmt::join(words, ", "));
}

void print_layers(const std::vector<Layer>& layers, bool all) {
  const int weighted = static_cast<int>(std::ranges::count_if(layers, has_weights));
  // A model without weights that could be quantized has nothing else to show.
  const int last = all ? 2 : weighted == 0 ? 1 : 0;
  const std::vector<TableColumn> table{
      {"layer", TableColumn::kName}, {"op"}, {"output"}, {"weights", TableColumn::kFigure}, {"quantizable"}};
  const std::vector<TableRow> rows = rows_of(layers, last);
  for (const auto& line : table_lines(table, rows, stdout_style())) fmt::print("{}\n", line);
  const auto quantizable = std::ranges::count_if(layers, [](const Layer& l) { return rank_of(l) < 2; });
  fmt::print("\n{} of {} nodes can be quantized, {} of them have weights\n", quantizable, layers.size(), weighted);
  if (rows.size() == layers.size()) return;
  for (int rank = last + 1; rank <= 2; ++rank)
    if (const std::string types = counted_types(layers, rank); !types.empty())
      fmt::print("  not listed, {}: {}\n", rank == 1 ? "without weights" : "cannot be quantized", types);
  fmt::print("  --all lists them\n");
}

// With `all` every layer; else those with weights, or the first where none has, and how many more there are.
void print_groups(const std::vector<std::vector<LayerId>>& groups, const std::vector<Layer>& layers, bool all) {
  std::set<LayerId> weighted;
  for (const Layer& l : layers)
    if (has_weights(l)) weighted.insert(l.id);
  fmt::print("\n{} groups, which take one decision each:\n", groups.size());
  for (const auto& group : groups) {
    std::vector<LayerId> named = group;
    if (!all) std::erase_if(named, [&](const LayerId& id) { return !weighted.contains(id); });
    if (named.empty()) named = {group.front()};
    const size_t more = group.size() - named.size();
    fmt::print("  {}{}\n", fmt::join(named, ", "), more ? fmt::format(" and {} more", more) : "");
  }
}

void inspect(const std::string& path, const HubOptions& hub, const GroupFlags& flags, bool whole,
             const Context& context) {
  Model model = load_model(model_file(path, hub, context));
  name_nodes(model);
  sort_nodes(model);
  model = infer_shapes(model);
  auto all = layers(model);
  auto together = groups(model, flags.parsed());
  QuantizedForm form = quantized_form(model);
  std::map<std::string, std::string> schemes;
  for (const LayerReport& r : explain(model)) schemes[r.name] = r.scheme;
  int64_t weights = 0;
  for (const Initializer& i : model.graph.initializers) weights += std::ssize(i.tensor.bytes());
  for (const Node& node : model.graph.nodes)
    if (const Attribute* value = node.op_type == "Constant" ? node.attribute("value") : nullptr)
      if (const auto* tensor = std::get_if<Tensor>(&value->value)) weights += std::ssize(tensor->bytes());
  if (context.json) {
    Json list = Json::array();
    for (const Layer& l : all)
      list.push_back({{"name", l.id},
                      {"op_type", l.op_type},
                      {"output_shape", l.output_shape},
                      {"weight_bytes", l.weight_bytes},
                      {"scheme", schemes[l.id]},
                      {"quantizable", l.quantizable},
                      {"schemes", names_of(l.schemes)},
                      {"reason", l.reason}});
    Json result{{"model", path},
                {"ir_version", model.ir_version},
                {"opset", model.opset()},
                {"inputs", infos_json(model.graph.free_inputs())},
                {"outputs", infos_json(model.graph.outputs)},
                {"weight_bytes", weights},
                {"form", form.form},
                {"quantize_nodes", form.quantize_nodes},
                {"dequantize_nodes", form.dequantize_nodes},
                {"quantized_operators", form.operators},
                {"schemes", form.layers},
                {"layers", list},
                {"groups", together}};
    print_json(result);
    return;
  }
  fmt::print("{}: opset {}, IR version {}, {} nodes, {} of weights\n", path, model.opset(), model.ir_version,
             all.size(), format_bytes(weights));
  for (const ValueInfo& v : model.graph.free_inputs())
    fmt::print("  input  {} {} {}\n", v.name, to_string(v.type), shape_text(v));
  for (const ValueInfo& v : model.graph.outputs)
    fmt::print("  output {} {} {}\n", v.name, to_string(v.type), shape_text(v));
  if (form.form != "float")
    fmt::print("  quantized: {}; {} QuantizeLinear, {} DequantizeLinear, {} quantized operators\n", form.form,
               form.quantize_nodes, form.dequantize_nodes, form.operators);
  fmt::print("\n");
  print_layers(all, whole);
  print_groups(together, all, whole);
}

}  // namespace

void add_inspect(Command app, Context& context) {
  auto path = std::make_shared<std::string>();
  auto flags = std::make_shared<GroupFlags>();
  auto hub = std::make_shared<HubOptions>();
  const Command word = app.add_subcommand("inspect", "What is in a model: inputs, outputs, opset, layers, groups");
  word.add_option("model", *path, kModelHelp).required();
  auto all = std::make_shared<bool>(false);
  word.add_flag("--all", *all,
                "List every node, also those without weights and those that cannot be quantized, and why");
  add_hub_flags(word, *hub);
  add_group_flags(word, *flags);
  word.callback([=, &context] { inspect(*path, *hub, *flags, *all, context); });
}

}  // namespace seqto::cli
