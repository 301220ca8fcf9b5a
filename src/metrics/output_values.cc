#include "metrics/output_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

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
  const auto first = std::ranges::find_if(tensors, [](const Tensor& t) { return is_float(t.type()); });
  if (first == tensors.end()) {
    std::vector<std::string_view> found;
    for (const Tensor& t : tensors)
      found.push_back(t.type() == DataType::kUndefined ? "no tensor" : to_string(t.type()));
    throw Error(Code::kInvalidInput,
                fmt::format("{} outputs of the types {} found; one of a float type was expected; export the model with "
                            "its scores as an output (skl2onnx: zipmap=False)",
                            asked_by, fmt::join(found, ", ")));
  }
  const bool fresh = outputs.rows == 0;
  outputs.place = static_cast<size_t>(first - tensors.begin());
  append_values(outputs, *first);
  for (size_t place = outputs.place + 1; fresh && place < tensors.size(); ++place)
    if (is_float(tensors[place].type()) && tensors[place].element_count() > 0)
      outputs.others.push_back({.dims = tensors[place].dims(), .place = place});
  std::erase_if(outputs.others, [&](const Outputs& other) {
    return other.place >= tensors.size() || tensors[other.place].dims() != other.dims;
  });
  for (Outputs& other : outputs.others) append_values(other, tensors[other.place]);
}

}  // namespace seqto::internal
