#include "metrics/output_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

bool is_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kDouble;
}

}  // namespace

void append_values(Outputs& outputs, const Tensor& tensor) {
  outputs.dims = tensor.dims();
  if (tensor.type() == DataType::kFloat) return outputs.append(tensor.values<float>());
  std::vector<float> values(static_cast<size_t>(tensor.element_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(element(tensor, static_cast<int64_t>(i)));
  outputs.append(values);
}

void append_outputs(Outputs& outputs, std::span<const Tensor> tensors, const char* asked_by) {
  if (tensors.empty() || !is_float(tensors[0].type()))
    throw Error(Code::kInvalidInput,
                fmt::format("{} the first output is {}; a float type was expected; put a float output first", asked_by,
                            tensors.empty() ? "absent" : to_string(tensors[0].type())));
  const bool first = outputs.rows == 0;
  append_values(outputs, tensors[0]);
  for (size_t place = 1; first && place < tensors.size(); ++place)
    if (is_float(tensors[place].type()) && tensors[place].element_count() > 0)
      outputs.others.push_back({.dims = tensors[place].dims(), .place = place});
  std::erase_if(outputs.others, [&](const Outputs& other) {
    return other.place >= tensors.size() || tensors[other.place].dims() != other.dims;
  });
  for (Outputs& other : outputs.others) append_values(other, tensors[other.place]);
}

}  // namespace seqto::internal
