#include "seqto/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "model/to_float32.h"
#include "seqto/error.h"

namespace seqto {
namespace {

std::map<std::string, int> op_counts(const Model& model) {
  std::map<std::string, int> counts;
  for (const Node& node : model.graph.nodes) ++counts[node.op_type];
  return counts;
}

// "-2 BatchNormalization, -1 Identity": what became less or more.
std::string difference(const Model& before, const Model& after) {
  std::map<std::string, int> change = op_counts(after);
  for (const auto& [type, count] : op_counts(before)) change[type] -= count;
  std::string text;
  for (const auto& [type, count] : change)
    if (count != 0) text += fmt::format("{}{:+} {}", text.empty() ? "" : ", ", count, type);
  return text.empty() ? "no change" : text;
}

// The runtime imports every domain that it knows; those that no node uses go again.
void keep_used_domains(Model& model, const Model& original) {
  std::unordered_set<std::string> used;
  for (const Opset& o : original.opsets) used.insert(o.domain);
  for (const Node& n : model.graph.nodes) used.insert(n.domain);
  std::erase_if(model.opsets, [&](const Opset& o) { return !o.domain.empty() && !used.contains(o.domain); });
}

// Whether a constant is read as it is and transposed, as an embedding and the head that is tied to it.
bool has_tied_table(const Model& model) {
  std::unordered_set<std::string> turned, other;
  for (const Node& node : model.graph.nodes)
    for (const std::string& name : node.inputs) (internal::is_transpose(node) ? turned : other).insert(name);
  return std::ranges::any_of(model.graph.initializers,
                             [&](const Initializer& i) { return turned.contains(i.name) && other.contains(i.name); });
}

void add_names(std::unordered_set<std::string>& names, const Graph& graph) {
  for (const ValueInfo& v : graph.inputs) names.insert(v.name);
  for (const Initializer& i : graph.initializers) names.insert(i.name);
  for (const Node& node : graph.nodes) names.insert(node.outputs.begin(), node.outputs.end());
}

// The runtime calls the constants that it adds alike in every model, as gemm_input_shape, and fails to optimize a model
// that has one of that name. Those that a body reads by name keep theirs.
void rename_added_constants(Model& model, const Model& original) {
  std::unordered_set<std::string> before, taken;
  add_names(before, original.graph);
  add_names(taken, model.graph);
  const auto captured = internal::GraphView(model).captured;
  std::unordered_map<std::string, std::string> renamed;
  for (Initializer& i : model.graph.initializers) {
    if (before.contains(i.name) || captured.contains(i.name)) continue;
    std::string name = i.name + "_prepared";
    for (int k = 1; before.contains(name) || !taken.insert(name).second; ++k)
      name = fmt::format("{}_prepared_{}", i.name, k);
    renamed[i.name] = name;
    i.name = std::move(name);
  }
  for (Node& node : model.graph.nodes)
    for (std::string& input : node.inputs)
      if (const auto it = renamed.find(input); it != renamed.end()) input = it->second;
  std::erase_if(model.graph.value_info, [&](const ValueInfo& v) { return renamed.contains(v.name); });
}

Model optimized(const Model& model, Runner& runner) {
  Model result = runner.optimized(model);
  rename_added_constants(result, model);
  keep_used_domains(result, model);
  result.external_files = model.external_files;
  result.producer_name = model.producer_name;
  result.producer_version = model.producer_version;
  return result;
}

// In the runtime's words; nothing where it takes the model.
std::optional<std::string> refusal(const Model& model, Runner& runner) {
  try {
    runner.load(model, {.optimization = SessionOptions::Optimization::kNone});
    return {};
  } catch (const Error& error) {
    if (error.code() != Code::kInvalidInput) throw;
    return error.what();
  }
}

}  // namespace

void check_loads(Prepared& prepared, const Model& original, Runner* runner) {
  if (!runner) {
    prepared.actions.push_back("not checked: no runtime to load the result found");
    return;
  }
  constexpr int64_t kMostBytes = int64_t{1} << 30;  // the runtime packs the weights into a second copy
  if (serialized_size(prepared.model) > kMostBytes) {
    prepared.actions.push_back("not checked: of more than 1 GB the runtime would hold the weights twice");
    return;
  }
  const auto words = refusal(prepared.model, *runner);
  if (!words) return;
  if (!refusal(original, *runner))
    throw Error(Code::kInternal, fmt::format("[prepare] the runtime takes the model as it came and refuses what it "
                                             "became: {}; nothing was written; try another --opset or --opset 0, and "
                                             "report the model",
                                             *words));
  prepared.actions.push_back(fmt::format("the runtime takes neither the model as it came nor this one: {}", *words));
}

Model in_float32(const Model& model) { return internal::to_float32(model); }

bool computes_in_float16(const Model& model) { return internal::computes_in_float16(model); }

Prepared preprocess(const Model& model, Runner* runner, const PrepareOptions& options) {
  PrepareOptions before = options;
  before.fold_batch_norms = before.infer_shapes = false;
  Prepared first = prepare(model, before);
  bool done = false;
  if (runner && computes_in_float16(first.model)) {
    first.actions.push_back("not optimized: it computes in float16, around which a CPU's runtime would put casts");
  } else if (runner) {
    try {
      Model better = optimized(first.model, *runner);
      if (serialized_size(better) > serialized_size(first.model) && has_tied_table(first.model)) {
        first.actions.push_back("not optimized: the runtime would store the transpose of a table beside the table");
      } else {
        first.actions.push_back(fmt::format("basic optimization by the runtime: {}", difference(first.model, better)));
        first.model = std::move(better);
        done = options.infer_shapes;
      }
    } catch (const Error& error) {
      if (error.code() != Code::kInvalidInput) throw;
      first.actions.push_back(fmt::format("not optimized: {}", error.what()));
    }
  }
  Prepared second = prepare(first.model, options);
  // What onnxruntime's quantizer looks for before it advises to preprocess.
  const std::pair<std::string, std::string> tag{"onnx.quant.pre_process", "onnxruntime.quant"};
  auto& metadata = second.model.metadata;
  if (done && std::find(metadata.begin(), metadata.end(), tag) == metadata.end()) metadata.push_back(tag);
  second.actions.insert(second.actions.begin(), first.actions.begin(), first.actions.end());
  return second;
}

}  // namespace seqto
