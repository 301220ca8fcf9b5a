#include "quantization/plan/weight_sites.h"

#include <string_view>

#include "model/op_traits.h"
#include "quantization/plan/overrides.h"

namespace seqto::internal {
namespace {

int64_t product(const std::vector<int64_t>& dims, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= dims[i];
  return n;
}

// Each index of the first `kept` dims is a channel.
std::optional<Grouping> rows(const std::vector<int64_t>& dims, size_t kept) {
  if (dims.size() <= kept) return Grouping{1, 1, 1, product(dims, 0, dims.size())};
  return Grouping{1, 1, product(dims, 0, kept), product(dims, kept, dims.size())};
}

// Each index of the last dim, apart for each matrix of a batch.
std::optional<Grouping> columns(const std::vector<int64_t>& dims) {
  if (dims.size() < 2) return rows(dims, 1);
  size_t rank = dims.size();
  return Grouping{product(dims, 0, rank - 2), dims[rank - 2], dims[rank - 1], 1};
}

std::optional<Grouping> transposed_convolution(const Node& node, const std::vector<int64_t>& dims) {
  int64_t group = node.int_attribute("group", 1);
  if (dims.size() < 2 || group < 1 || dims[0] % group != 0) return {};
  return Grouping{group, dims[0] / group, dims[1], product(dims, 2, dims.size())};
}

std::optional<Grouping> embedding(const Node& node, const std::vector<int64_t>& dims) {
  const auto axis = normalized_axis(node.int_attribute("axis", 0), dims.size());
  if (dims.size() < 2 || !axis) return rows(dims, 1);
  const auto a = static_cast<size_t>(*axis);
  return Grouping{1, product(dims, 0, a), dims[a], product(dims, a + 1, dims.size())};
}

std::optional<Grouping> first_axis(const Node&, const std::vector<int64_t>& dims) { return rows(dims, 1); }
std::optional<Grouping> last_axis(const Node&, const std::vector<int64_t>& dims) { return columns(dims); }
std::optional<Grouping> but_last_axis(const Node&, const std::vector<int64_t>& dims) {
  return rows(dims, dims.size() < 2 ? 1 : dims.size() - 1);
}
std::optional<Grouping> left_of_gemm(const Node& node, const std::vector<int64_t>& dims) {
  if (dims.size() != 2) return {};
  return node.int_attribute("transA", 0) ? columns(dims) : rows(dims, 1);
}
std::optional<Grouping> right_of_gemm(const Node& node, const std::vector<int64_t>& dims) {
  if (dims.size() != 2) return {};
  return node.int_attribute("transB", 0) ? rows(dims, 1) : columns(dims);
}
std::optional<Grouping> recurrent(const Node&, const std::vector<int64_t>& dims) {
  return dims.size() == 3 ? rows(dims, 2) : std::nullopt;
}

// How the weights of an operator lie, by input.
struct Row {
  std::string_view domain, op_type;
  size_t input;
  std::optional<Grouping> (*grouping)(const Node&, const std::vector<int64_t>& dims);
};
constexpr Row kRows[] = {
    {"", "Conv", 1, first_axis},
    {"", "ConvTranspose", 1, transposed_convolution},
    {"", "GRU", 1, recurrent},
    {"", "GRU", 2, recurrent},
    {"", "Gather", 0, embedding},
    {"", "Gemm", 0, left_of_gemm},
    {"", "Gemm", 1, right_of_gemm},
    {"", "LSTM", 1, recurrent},
    {"", "LSTM", 2, recurrent},
    {"", "MatMul", 0, but_last_axis},
    {"", "MatMul", 1, last_axis},
    {"", "RNN", 1, recurrent},
    {"", "RNN", 2, recurrent},
    {"com.microsoft", "Attention", 1, last_axis},
    {"com.microsoft", "EmbedLayerNormalization", 2, first_axis},
    {"com.microsoft", "EmbedLayerNormalization", 3, first_axis},
    {"com.microsoft", "EmbedLayerNormalization", 4, first_axis},
};

std::optional<Grouping> grouping_of(const Node& node, size_t input, const std::vector<int64_t>& dims) {
  for (const Row& row : kRows)
    if (row.input == input && row.op_type == node.op_type && row.domain == node.domain) return row.grouping(node, dims);
  return {};
}

// Of the matrix, where the layer reads its transpose.
std::optional<Grouping> grouping_of_transpose(const Node& node, size_t input, const std::vector<int64_t>& dims) {
  if (!has(node, kMatrixProduct) || dims.size() != 2) return {};
  auto grouping = grouping_of(node, input, {dims[1], dims[0]});
  if (grouping) std::swap(grouping->before, grouping->after);
  return grouping;
}

bool turns_a_matrix(const Node& node) {
  if (!is_transpose(node) || !node.domain.empty() || node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  const Attribute* perm = node.attribute("perm");
  const auto* axes = perm ? std::get_if<std::vector<int64_t>>(&perm->value) : nullptr;
  return !perm || (axes && *axes == std::vector<int64_t>{1, 0});
}

}  // namespace

TransposedWeights transposed_weights(const Model& model, const ConstantOf& constant) {
  TransposedWeights result;
  for (const Node& node : model.graph.nodes) {
    if (!turns_a_matrix(node)) continue;
    const Tensor* matrix = constant(node.inputs[0]);
    if (matrix && matrix->is_float() && matrix->dims().size() == 2) result[node.outputs[0]] = node.inputs[0];
  }
  for (const ValueInfo& output : model.graph.outputs) result.erase(output.name);
  return result;
}

std::vector<WeightSite> weight_sites(const Node& node, const ConstantOf& constant,
                                     const TransposedWeights& transposed) {
  std::vector<WeightSite> sites;
  for (size_t i = 0; i < node.inputs.size() && i < 5; ++i) {
    const std::string& input = node.inputs[i];
    auto turned = transposed.find(input);
    const std::string& name = turned == transposed.end() ? input : turned->second;
    const Tensor* weight = name.empty() ? nullptr : constant(name);
    if (!weight || !weight->is_float() || weight->element_count() == 0) continue;
    const bool is_turned = turned != transposed.end();
    auto grouping = is_turned ? grouping_of_transpose(node, i, weight->dims()) : grouping_of(node, i, weight->dims());
    if (grouping) sites.push_back({i, *grouping, name, is_turned});
  }
  return sites;
}

}  // namespace seqto::internal
