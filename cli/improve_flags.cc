#include "improve_flags.h"

namespace seqto::cli {

void add_improve_flags(Command word, ImproveFlags& f) {
  word.add_flag(
      "--improve", f.improve,
      "What helps most on average, for some more time: --rounding learned, with static or dynamic layers "
      "--center --equalize --unify-concat --float-unlike-concat too, with 16-bit activations --headroom-16-bits 2 "
      "for the first two");
  word.add_flag("--center", f.center,
                "Move the channels of tensors to the middle of their ranges before they are quantized");
  word.add_flag("--equalize", f.equalize,
                "Scale the channels of tensors, before they are quantized, so that rounding loses least");
  word.add_flag("--refine-ranges", f.refine_ranges,
                "Narrow the ranges of activations where the model's outputs come nearer to the float model's");
  word.add_flag("--smooth-quant", f.smooth,
                "Move outlier channels of activations into the weights of MatMul and Gemm; static and dynamic");
  word.add_option("--smooth-alpha", f.smooth_alpha,
                  "How much of them: 0 to 1, or auto: for each activation the best on a few samples")
      .check_range_or(0.0, 1.0, "auto")
      .capture_default_str();
  word.add_option("--bias-correction", f.bias_correction,
                  "Let biases take up the mean error of their layers: none, fast or full")
      .check_one_of({"none", "fast", "full"})
      .capture_default_str();
  word.add_option("--rounding", f.rounding,
                  "nearest, or learned: each weight rounded so that its layer's output comes near the float model's "
                  "(default: nearest, with --improve learned)")
      .check_one_of({"nearest", "learned"});
}

ImproveOptions ImproveFlags::parsed(Scheme scheme, const QuantizeOptions& quantize) const {
  ImproveOptions options = improve ? recommended_improvers(scheme, quantize.activation_type) : ImproveOptions{};
  options.center |= center;
  options.equalize |= equalize;
  options.smooth |= smooth;
  options.refine_ranges |= refine_ranges;
  if (rounding) options.learned_rounding = rounding == "learned";
  options.bias_correction = parse_bias_correction(bias_correction);
  if (smooth_alpha == "auto") options.smooth_alpha.reset();
  else options.smooth_alpha = std::stod(smooth_alpha);
  return options;
}

void ImproveFlags::add_options(QuantizeOptions& options, const QuantizeFlags& given, bool any_16_bits) const {
  if (!improve || options.compat_onnxruntime) return;
  if (!given.headroom_16_bits && any_16_bits) options.headroom_16_bits = kRecommendedHeadroom16Bits;
  if (!given.unify_concat) options.unify_concat = true;
  if (!given.float_unlike_concat) options.float_unlike_concat = true;
}

bool ImproveFlags::any() const {
  return improve || center || equalize || smooth || refine_ranges || rounding || bias_correction != "none";
}

const char* ImproveFlags::first() const {
  return improve                 ? "--improve"
         : center                ? "--center"
         : equalize              ? "--equalize"
         : smooth                ? "--smooth-quant"
         : rounding == "learned" ? "--rounding learned"
         : refine_ranges         ? "--refine-ranges"
                                 : "--bias-correction";
}

}  // namespace seqto::cli
