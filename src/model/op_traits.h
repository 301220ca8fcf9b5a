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
constexpr Traits kPools = 1 << 27;         // AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool

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
constexpr Traits kPair = 1 << 16;             // QuantizeLinear, DequantizeLinear, of either domain
constexpr Traits kOnCodes = 1 << 17;          // an operator on codes that no QDQ model has
constexpr Traits kDynamic = 1 << 18;          // of those, with parameters that are found at run time
constexpr Traits kUnfoldsWeights = 1 << 19;   // between a stored weight and its layer
constexpr Traits kEndsUnfolding = 1 << 20;    // of those, what the layer reads
constexpr Traits kConverts = 1 << 21;         // floats to codes or back
constexpr Traits kIntegerProduct = 1 << 22;   // gives int32, of which a Cast and a Mul make floats
constexpr Traits kCodedWeights = 1 << 23;     // of kOnCodes, with activations in float
constexpr Traits kComputesOnCodes = 1 << 24;  // on quantized inputs it runs on integers, though its output be float
constexpr Traits kBlocks = 1 << 25;           // of kCodedWeights, with a scale for each block of one
constexpr Traits kCodedProduct = 1 << 26;     // of codes with codes: QLinearConv, QLinearMatMul, QGemm

// Whether the operator has one of the traits; the domain is not asked.
bool has(const Node& node, Traits traits);
bool has(std::string_view op_type, Traits traits);

bool is_constant(const Node& node);    // Constant
bool is_quantize(const Node& node);    // QuantizeLinear
bool is_dequantize(const Node& node);  // DequantizeLinear
bool is_dynamic_quantize(const Node& node);
bool is_add(const Node& node);
bool is_bit_shift(const Node& node);
bool is_cast(const Node& node);
bool is_clip(const Node& node);
bool is_concat(const Node& node);
bool is_gather(const Node& node);
bool is_max_pool(const Node& node);
bool is_matmul(const Node& node);
bool is_gemm(const Node& node);
bool is_mul(const Node& node);
bool is_pad(const Node& node);
bool is_relu(const Node& node);
bool is_reshape(const Node& node);

// kMovesValues, with an input and an output.
bool moves_values(const Node& node);

// QLinearConv, MatMulInteger, MatMulNBits ...: operators that compute on quantized tensors.
bool is_quantized_operator(const Node& node);
bool is_quantized_operator(std::string_view op_type);

// The positions that hold what a layer computes with: no bias, no bounds, no shapes.
std::vector<size_t> data_inputs(const Node& node);

// The position of its bias, where it has one.
std::optional<size_t> bias_input(const Node& node);

// Of an operator that gives codes: the input with their scale, behind which is the zero point; nothing where it gives
// floats.
std::optional<size_t> output_scale(const Node& node);

// The first opset whose operator takes integers; 0: every one, as far as it takes them.
int64_t integers_from_opset(const Node& node);

// The axis of a weight (input 1, of this rank) of Conv, ConvTranspose, Gemm or MatMul along which its outputs lie, and
// the axis that is summed over. Of a grouped convolution as its weight lies in the file.
std::optional<size_t> output_axis(const Node& node, size_t rank);
std::optional<size_t> summed_axis(const Node& node, size_t rank);

}  // namespace seqto::internal
