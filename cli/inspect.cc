// seqto inspect: what is in a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "group_flags.h"
#include "hub_flags.h"
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

void inspect(const std::string& path, const HubOptions& hub, const GroupFlags& flags, const Context& context) {
  Model model = load_model(model_file(path, hub, context));
  name_nodes(model);
  sort_nodes(model);
  model = infer_shapes(model);
  auto all = layers(model);
  auto together = groups(model, flags.parsed());
  QuantizedForm form = quantized_form(model);
  std::map<std::string, std::string> schemes;
  for (const LayerReport& r : explain(model)) schemes[r.name] = r.scheme;
  int64_t weights = 0, quantizable = 0;
  for (const Layer& l : all) quantizable += l.quantizable;
  for (const Initializer& i : model.graph.initializers) weights += static_cast<int64_t>(i.tensor.bytes().size());
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
    fmt::print("{}\n", result.dump(1));
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
  std::vector<TableRow> rows;
  for (const Layer& l : all)
    rows.push_back({l.id, l.op_type, format_shape(l.output_shape, "x"),
                    l.weight_bytes ? format_bytes(l.weight_bytes) : "", l.quantizable ? "yes" : "no: " + l.reason});
  const std::vector<TableColumn> table{
      {"layer", TableColumn::kName}, {"op"}, {"output"}, {"weights", TableColumn::kFigure}, {"quantizable"}};
  for (const auto& line : table_lines(table, rows, stdout_style())) fmt::print("{}\n", line);
  fmt::print("\n{} of {} nodes can be quantized\n", quantizable, all.size());
  fmt::print("\n{} groups, which take one decision each:\n", together.size());
  for (const auto& group : together) fmt::print("  {}\n", fmt::join(group, ", "));
}

}  // namespace

void add_inspect(CLI::App& app, Context& context) {
  auto path = std::make_shared<std::string>();
  auto flags = std::make_shared<GroupFlags>();
  auto hub = std::make_shared<HubOptions>();
  auto* word = app.add_subcommand("inspect", "What is in a model: inputs, outputs, opset, layers, groups");
  word->add_option("model", *path, kModelHelp)->required();
  add_hub_flags(word, *hub);
  add_group_flags(word, *flags);
  word->callback([=, &context] { inspect(*path, *hub, *flags, context); });
}

}  // namespace seqto::cli
