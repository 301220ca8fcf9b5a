// Room: quantization/plan. What options and overrides say about one tensor, and whether they can be followed at all.
#pragma once

#include <optional>
#include <string>

#include "quantization/plan/code_types.h"
#include "seqto/quantize.h"

namespace seqto::internal {

// The entries of a tensor, or nothing where it has none.
const std::vector<TensorOverride>* overrides_of(const QuantizeOptions& options, const std::string& tensor);

DataType activation_type_of(const QuantizeOptions& options, const std::string& tensor);
DataType weight_type_of(const QuantizeOptions& options, const std::string& tensor);

// True when a tensor of any kind may get such a type, converted ones included.
bool uses_16_bits(const QuantizeOptions& options);
bool uses_4_bits(const QuantizeOptions& options);
bool uses_blocks(const QuantizeOptions& options);
int64_t block_size_of(const QuantizeOptions& options, const std::string& weight);
// True when 4-bit types are only in entries behind the first that is not empty: onnxruntime does not see those.
bool hides_4_bits(const QuantizeOptions& options);

// The opset that Q and DQ of these options need in the standard domain, 4 bits aside, which onnxruntime does not
// convert for.
int64_t required_opset(const QuantizeOptions& options);
// Q and DQ of com.microsoft: asked for, or types that the model's opset has not.
bool in_contrib_domain(const QuantizeOptions& options, int64_t opset);

// Examines every entry. Throws Error{kInvalidInput} with tensor and reason.
void validate_overrides(const Model& model, const QuantizeOptions& options);

// Normalized axis, or nothing when it lies outside of the rank.
std::optional<int64_t> normalized_axis(int64_t axis, size_t rank);

}  // namespace seqto::internal
