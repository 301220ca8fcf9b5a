#include "quantization/read/rule_refusals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/op_traits.h"

namespace seqto::internal {

std::string types_text(const std::vector<DataType>& types) {
  std::vector<std::string_view> names;
  for (const DataType type : types) names.push_back(to_string(type));
  return fmt::format("{}", fmt::join(names, ", "));
}

bool contains(const std::vector<DataType>& types, DataType type) {
  return types.empty() || std::ranges::count(types, type) > 0;
}

std::string size_refusal(const Node& node, const TargetRule& rule, std::span<const int64_t> weight) {
  const auto inner = summed_axis(node, weight.size()), outer = output_axis(node, weight.size());
  if (inner && weight[*inner] < rule.least_inner)
    return fmt::format("sums over {} found; {} or more are worth it", weight[*inner], rule.least_inner);
  if (outer && weight[*outer] < rule.least_outer)
    return fmt::format("{} outputs found; {} or more are worth it", weight[*outer], rule.least_outer);
  return {};
}

// The samples of a batch are rows of a product with one weight, and matrices of their own beside another activation.
std::string row_refusal(const Node& node, const TargetRule& rule, const Surroundings& around) {
  if (rule.least_rows == 0 || (!is_matmul(node) && !is_gemm(node))) return {};
  const auto* dims = around.pairs.dims(node.inputs[0]);
  if (!dims || dims->empty()) return {};
  const auto weight = around.read(node.inputs[1]);
  int64_t rows = 1;
  if (is_gemm(node)) rows = dims->at(node.int_attribute("transA", 0) != 0 ? 1 : 0);
  else if (weight && !weight->constant) rows = dims->size() > 1 ? dims->at(dims->size() - 2) : 1;
  else
    for (size_t i = 0; i + 1 < dims->size(); ++i) rows *= (*dims)[i];
  return rows < rule.least_rows ? fmt::format("{} rows found; {} or more are worth it", rows, rule.least_rows) : "";
}

std::string stored_refusal(const Node& node, const TargetRule& rule, const Surroundings& around) {
  const auto found = around.read(node.inputs[1]);
  if (!found || !found->constant) return "a weight that is not in codes found";
  if (around.read(node.inputs[0])) return "codes on both sides found";
  if (!contains(rule.weights, found->type))
    return fmt::format("{} weights found; {} taken", to_string(found->type), types_text(rule.weights));
  const std::string& tensor = found->node->inputs[0];
  if (around.view.edges.uses(tensor) != 1) return "a weight with several readers found";
  if (has_factors(node) || node.int_attribute("transA", 0) != 0 || node.int_attribute("transB", 0) != 0)
    return "a factor or a transposed input found";
  if (const auto bias = bias_input(node))
    if (const auto* dims = around.pairs.dims(node.inputs[*bias]); !dims || dims->size() != 1)
      return "a bias of another rank than 1 found";
  const auto* dims = around.pairs.dims(tensor);
  if (!dims || dims->size() != 2 || !found->scale) return "a weight of another rank than 2 found";
  const auto& scales = found->scale->dims();
  const int64_t block = found->node->int_attribute("block_size", 0), axis = found->node->int_attribute("axis", 1);
  const bool blocks = block >= 16 && (block & (block - 1)) == 0 && axis == 0 && scales.size() == 2;
  const bool channels = block == 0 && axis == 1 && scales.size() == 1 && scales[0] == (*dims)[1];
  if (!blocks && !channels && (block > 0 || !scales.empty())) return "scales found that lie otherwise";
  const auto& readers = around.view.edges.readers(node.outputs[0]);
  return std::ranges::any_of(readers, [](const Node* n) { return is_quantize(*n); }) ? "a quantized output found" : "";
}

}  // namespace seqto::internal
