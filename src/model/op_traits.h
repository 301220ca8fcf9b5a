// Room: model. What is known of single operators: one table, a row an operator. Passes ask for a trait and name no
// operator; where one does, it is about that operator alone and says why.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

using Traits = uint32_t;  // bits

// --- what it computes
constexpr Traits kConv = 1 << 0;           // convolutions, transposed ones too
constexpr Traits kProduct = 1 << 1;        // of an input and a weight, summed: kConv, Gemm, MatMul
constexpr Traits kRecurrent = 1 << 2;      // LSTM, GRU, RNN
constexpr Traits kNormalization = 1 << 3;  // with a scale and a bias for each channel
constexpr Traits kClips = 1 << 4;          // Relu, Clip: cut values off
constexpr Traits kAverages = 1 << 5;       // many values to one
constexpr Traits kNotNegative = 1 << 6;    // its output, whatever comes in
constexpr Traits kExactInHalf = 1 << 7;    // the same whether before or after rounding to float16

// --- what becomes of values and channels
constexpr Traits kMovesValues = 1 << 8;     // all of them: the runtime takes Q and DQ past it, as it does past MaxPool
constexpr Traits kKeepsCodes = 1 << 9;      // computes on integers as on floats, handing on what codes mean
constexpr Traits kTakesApart = 1 << 10;     // what it gives has less than what it reads
constexpr Traits kMovesChannels = 1 << 11;  // each channel of its output was one of its inputs'
constexpr Traits kScales = 1 << 12;         // channel by channel: factors above 0 of inputs are factors of the output
constexpr Traits kShifts = 1 << 13;         // channel by channel: what is added to inputs is added to the output
constexpr Traits kFollowsAxis = 1 << 14;    // takes constants with a scale for each channel
constexpr Traits kPassThrough = 1 << 15;    // onnxruntime quantizes it where its input is quantized already

// --- quantization
constexpr Traits kPair = 1 << 16;            // QuantizeLinear, DequantizeLinear, of either domain
constexpr Traits kOnCodes = 1 << 17;         // an operator on codes that no QDQ model has
constexpr Traits kDynamic = 1 << 18;         // of those, with parameters that are found at run time
constexpr Traits kUnfoldsWeights = 1 << 19;  // between a stored weight and its layer

// Whether the operator has one of the traits; the domain is not asked.
bool has(const Node& node, Traits traits);
bool has(std::string_view op_type, Traits traits);

bool is_constant(const Node& node);    // Constant
bool is_quantize(const Node& node);    // QuantizeLinear
bool is_dequantize(const Node& node);  // DequantizeLinear
bool is_concat(const Node& node);
bool is_max_pool(const Node& node);
bool is_matmul(const Node& node);
bool is_gemm(const Node& node);
bool is_relu(const Node& node);

// kMovesValues, with an input and an output.
bool moves_values(const Node& node);

// QLinearConv, MatMulInteger, MatMulNBits ...: operators that compute on quantized tensors.
bool is_quantized_operator(const Node& node);

// The positions that hold what a layer computes with: no bias, no bounds, no shapes.
std::vector<size_t> data_inputs(const Node& node);

// The axis of a weight (input 1, of this rank) of Conv, ConvTranspose, Gemm or MatMul along which its outputs lie, and
// the axis that is summed over. Of a grouped convolution as its weight lies in the file.
std::optional<size_t> output_axis(const Node& node, size_t rank);
std::optional<size_t> summed_axis(const Node& node, size_t rank);

}  // namespace seqto::internal
