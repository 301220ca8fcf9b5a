// The layers of a QDQ model that runtimes compute in integers, with all that their arithmetic needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "seqto/model.h"
#include "seqto/validate.h"

namespace seqto::internal {

// What a convolution reads for one output.
struct ConvShape {
  enum class Padding { kGiven, kSameUpper, kSameLower };  // same: as many outputs as strides begin in the image

  int64_t groups = 1;
  Padding padding = Padding::kGiven;
  std::vector<int64_t> kernel, strides, dilations;  // along each axis
  std::vector<int64_t> pads;                        // in front of each axis, then behind each
};

// acc = sum of (x - x_zero)(w - w_zero) + bias, then codes or floats.
struct IntegerLayer {
  AuditedLayer audited;
  bool is_conv = false;
  ConvShape shape;
  std::string input, output;  // tensors: codes of 8 bits, or of 16 where not `fused`; codes or floats
  std::string sums;           // what the node itself writes
  DataType input_type = DataType::kUint8, output_type = DataType::kFloat;
  float input_scale = 1, output_scale = 1;
  int input_zero = 0, output_zero = 0;
  // As the kernels multiply: for each output channel its depth in the order of the products.
  int64_t channels = 0, depth = 0;
  std::vector<int16_t> weights;  // channels x depth
  std::vector<int32_t> weight_zeros;
  std::vector<float> weight_scales;
  std::vector<int32_t> bias;  // one a channel

  // Pairs of products that can leave 16 bits, as the first one's index, channel by channel.
  std::vector<std::vector<int32_t>> risky;
};

// In graph order. Those with weights are complete but for `risky` where they cannot saturate; of others only `audited`
// and names are meant to be read. Layers that nothing here computes are among them, without weights.
// `fused`: those that onnxruntime computes so, for what it makes of the output; else all that read codes.
std::vector<IntegerLayer> integer_layers(const Model& model, bool fused = true);

struct LayerResult {
  Tensor output;
  int64_t pairs = 0, saturated_pairs = 0, outputs = 0, saturated_outputs = 0;
};
// `input`: codes. `saturate`: products as vpmaddubsw adds them, else exactly.
LayerResult compute(const IntegerLayer& layer, const Tensor& input, bool saturate);
// The sums as floats, from the bias on one product after the other; where one leaves -limit - 1 to limit it stops at
// the end. Pairs of the result: products and those that were cut.
LayerResult accumulate(const IntegerLayer& layer, const Tensor& input, int64_t limit);
// Beyond what no input can bring them.
int64_t largest_sum(const IntegerLayer& layer);

}  // namespace seqto::internal
