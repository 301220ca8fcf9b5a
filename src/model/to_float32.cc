#include "model/to_float32.h"

#include <sys/mman.h>

#include <algorithm>

#include "model/float16.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// So many zeros: pages that are only read all are the system's one page of zeros.
std::shared_ptr<const void> zeros(size_t bytes) {
  void* start = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) throw Error(Code::kInternal, "[load] no address space left for the model's constants");
  return {start, [bytes](const void* p) { ::munmap(const_cast<void*>(p), bytes); }};
}

bool is_half(const Tensor& tensor) { return tensor.type() == DataType::kFloat16; }

void widen(ValueInfo& info) {
  if (info.type != DataType::kFloat16) return;
  info.type = DataType::kFloat;
  info.proto.clear();
}

void widen(Attribute& attribute, const std::string& op_type) {
  if (auto* tensor = std::get_if<Tensor>(&attribute.value)) *tensor = to_float32(*tensor);
  // Cast, and what makes tensors of a type of its own: EyeLike, RandomNormal ... (SequenceEmpty is not met with).
  const bool names_type = attribute.name == "to" || attribute.name == "dtype" || attribute.name == "stash_type";
  auto* type = std::get_if<int64_t>(&attribute.value);
  if (names_type && type && *type == static_cast<int64_t>(DataType::kFloat16) && op_type != "QuantizeLinear")
    *type = static_cast<int64_t>(DataType::kFloat);
}

}  // namespace

Tensor to_float32(const Tensor& tensor) {
  if (!is_half(tensor)) return tensor;
  const auto halves = tensor.values<uint16_t>();
  std::vector<float> values(halves.size());
  std::ranges::transform(halves, values.begin(), half_to_float);
  tensor.release();
  return float_tensor(tensor.dims(), std::move(values));
}

Model to_float32(const Model& model, bool values) {
  Model result = model;
  Graph& graph = result.graph;
  size_t most = 0;
  for (const Initializer& i : graph.initializers)
    if (is_half(i.tensor)) most = std::max(most, 2 * i.tensor.bytes().size());
  const auto nothing = values || most == 0 ? nullptr : zeros(most);
  for (Initializer& i : graph.initializers) {
    if (!is_half(i.tensor)) continue;
    const size_t bytes = 2 * i.tensor.bytes().size();
    if (nothing)
      i.tensor =
          Tensor(DataType::kFloat, i.tensor.dims(), nothing, {static_cast<const std::byte*>(nothing.get()), bytes});
    else i.tensor = to_float32(i.tensor);
  }
  for (auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (ValueInfo& info : *infos) widen(info);
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes) widen(attribute, node.op_type);
  return result;
}

}  // namespace seqto::internal
