#include "metrics/output_values.h"

#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto::internal {

void append_output(Outputs& outputs, const Tensor& first, const char* asked_by) {
  if (first.type() == DataType::kFloat) return outputs.append(first.values<float>());
  if (first.type() != DataType::kFloat16 && first.type() != DataType::kBfloat16 && first.type() != DataType::kDouble)
    throw Error(Code::kInvalidInput, fmt::format("{} the first output is {}; a float type was expected; put a float "
                                                 "output first",
                                                 asked_by, to_string(first.type())));
  std::vector<float> values(static_cast<size_t>(first.element_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(element(first, static_cast<int64_t>(i)));
  outputs.append(values);
}

}  // namespace seqto::internal
