// Room: model. What is known of single operators: one table, a row an operator. Passes ask for a trait and name no
// operator; where one does, it is about that operator alone and says why.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

using Traits = uint64_t;  // bits

// --- what it computes
constexpr Traits kConv = 1ull << 0;           // convolutions, transposed ones too
constexpr Traits kProduct = 1ull << 1;        // of an input and a weight, summed: kConv, Gemm, MatMul
constexpr Traits kMatrixProduct = 1ull << 2;  // of kProduct: Gemm, MatMul
constexpr Traits kRecurrent = 1ull << 3;      // LSTM, GRU, RNN
constexpr Traits kNormalization = 1ull << 4;  // with a scale and a bias for each channel
constexpr Traits kClips = 1ull << 5;          // Relu, Clip: cut values off
constexpr Traits kPools = 1ull << 6;          // AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
constexpr Traits kAverages = 1ull << 7;       // many values to one
constexpr Traits kNotNegative = 1ull << 8;    // its output, whatever comes in
constexpr Traits kExactInHalf = 1ull << 9;    // the same whether before or after rounding to float16
constexpr Traits kAttends = 1ull << 31;       // queries to keys and values, in one operator
constexpr Traits kChooses = 1ull << 32;       // by comparing values what it gives, in which order, and how much of it

constexpr Traits kRandom = 1ull << 33;  // draws numbers

// --- what becomes of values, codes and channels
constexpr Traits kMovesValues = 1ull << 10;  // all of them: the runtime takes Q and DQ past it, as it does past MaxPool
constexpr Traits kKeepsCodes = 1ull << 11;   // computes on integers as on floats, handing on what codes mean
constexpr Traits kKeepsScale = 1ull << 12;   // its output has its input's scale
constexpr Traits kDataMovement = 1ull << 13;   // AIMET's word: has the encoding of its input
constexpr Traits kTakesApart = 1ull << 14;     // what it gives has less than what it reads
constexpr Traits kMovesChannels = 1ull << 15;  // each channel of its output was one of its inputs'
constexpr Traits kScales = 1ull << 16;       // channel by channel: factors above 0 of inputs are factors of the output
constexpr Traits kShifts = 1ull << 17;       // channel by channel: what is added to inputs is added to the output
constexpr Traits kFollowsAxis = 1ull << 18;  // takes constants with a scale for each channel
constexpr Traits kPassThrough = 1ull << 19;  // onnxruntime quantizes it where its input is quantized already

// --- quantization
constexpr Traits kPair = 1ull << 20;             // QuantizeLinear, DequantizeLinear, of either domain
constexpr Traits kConverts = 1ull << 21;         // floats to codes or back
constexpr Traits kOnCodes = 1ull << 22;          // an operator on codes that no QDQ model has
constexpr Traits kCodedProduct = 1ull << 23;     // of codes with codes: QLinearConv, QLinearMatMul, QGemm
constexpr Traits kDynamic = 1ull << 24;          // of kOnCodes, with parameters that are found at run time
constexpr Traits kIntegerProduct = 1ull << 25;   // gives int32, of which a Cast and a Mul make floats
constexpr Traits kCodedWeights = 1ull << 26;     // of kOnCodes, with activations in float
constexpr Traits kBlocks = 1ull << 27;           // of kCodedWeights, with a scale for each block of one
constexpr Traits kUnfoldsWeights = 1ull << 28;   // between a stored weight and its layer
constexpr Traits kEndsUnfolding = 1ull << 29;    // of those, what the layer reads
constexpr Traits kComputesOnCodes = 1ull << 30;  // on quantized inputs it runs on integers, though its output be float

// Whether the operator has one of the traits; the domain is not asked.
bool has(const Node& node, Traits traits);
bool has(std::string_view op_type, Traits traits);

bool is_add(const Node& node);
bool is_average_pool(const Node& node);
bool is_batch_normalization(const Node& node);
bool is_bit_shift(const Node& node);
bool is_cast(const Node& node);
bool is_clip(const Node& node);
bool is_concat(const Node& node);
bool is_constant(const Node& node);
bool is_conv(const Node& node);  // no transposed one
bool is_conv_integer(const Node& node);
bool is_conv_transpose(const Node& node);
bool is_dequantize(const Node& node);        // DequantizeLinear
bool is_dynamic_quantize(const Node& node);  // DynamicQuantizeLinear
bool is_flatten(const Node& node);
bool is_gather(const Node& node);
bool is_gemm(const Node& node);
bool is_identity(const Node& node);
bool is_if(const Node& node);
bool is_leaky_relu(const Node& node);
bool is_matmul(const Node& node);
bool is_max_pool(const Node& node);
bool is_mul(const Node& node);
bool is_nbits(const Node& node);  // MatMulNBits
bool is_pad(const Node& node);
bool is_quantize(const Node& node);  // QuantizeLinear
bool is_relu(const Node& node);
bool is_reshape(const Node& node);
bool is_resize(const Node& node);
bool is_shape(const Node& node);
bool is_sigmoid(const Node& node);
bool is_size(const Node& node);
bool is_slice(const Node& node);
bool is_softmax(const Node& node);
bool is_split(const Node& node);
bool is_tanh(const Node& node);
bool is_transpose(const Node& node);
bool is_where(const Node& node);

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

// output_axis() of layers that take a bias, where it is that of all outputs: of no ConvTranspose with groups.
std::optional<size_t> biased_axis(const Node& node, size_t rank);

// Whether a bias holds a value for each channel: Gemm's may be any that broadcasts, also one for each row.
inline bool holds_channels(const Tensor& bias, int64_t channels) {
  return bias.element_count() == channels && !bias.dims().empty() && bias.dims().back() == channels;
}

// Gemm with another alpha or beta than 1.
bool has_factors(const Node& node);

// Inputs between which its answer changes: beyond them it is within 0.0005 of what it tends to.
struct Bends {
  double low = 0, high = 0;
  double low_times = 0;  // the low one of x times its answer; minus infinity where that goes on
};
// Nothing where no end is known.
std::optional<Bends> bends(const Node& node);

}  // namespace seqto::internal
