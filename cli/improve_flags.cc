#include "improve_flags.h"

#include <algorithm>
#include <map>

namespace seqto::cli {

void add_improve_flags(Command any, ImproveFlags& f) {
  const Command improvers_of = any.under("Improvers"), word = improvers_of.in_detail();
  improvers_of.add_flag_function(
      "--improve,!--no-improve", [&f](int64_t given) { f.improve = given > 0; },
      "What helps most (default with data, if nothing else is named)");
  std::map<std::string_view, const Improver*> by_flag;  // the order of the help
  for (const Improver& i : improvers())
    if (i.help) by_flag[i.flag] = &i;
  for (const auto& [flag, i] : by_flag) word.add_flag(i->flag, f.given.*i->option, i->help);
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
  ImproveOptions options = given;
  if (improves())
    options = joined(given, improve ? recommended_improvers(scheme, quantize.activation_type)
                                    : default_improvers(scheme, quantize.activation_type));
  if (rounding) options.learned_rounding = rounding == "learned";
  options.bias_correction = parse_bias_correction(bias_correction);
  if (smooth_alpha == "auto") options.smooth_alpha.reset();
  else options.smooth_alpha = std::stod(smooth_alpha);
  return options;
}

void ImproveFlags::add_options(QuantizeOptions& options, const QuantizeFlags& given, bool any_16_bits) const {
  if (improves()) take_recommended(options, given.named(), any_16_bits);
}

bool ImproveFlags::improves() const { return improve.value_or(unasked && !quick && !names()); }

bool ImproveFlags::any() const { return improve.value_or(false) || names(); }

bool ImproveFlags::names() const { return given != ImproveOptions{} || rounding || bias_correction != "none"; }

ImproveOptions ImproveFlags::named() const {
  ImproveOptions asked = given;
  asked.learned_rounding = rounding == "learned";
  asked.bias_correction = parse_bias_correction(bias_correction);
  return asked;
}

const char* ImproveFlags::first() const {
  if (improves()) return "--improve";
  const ImproveOptions asked = named();
  const auto all = improvers();
  const auto found = std::ranges::find_if(all, [&](const Improver& i) { return i.asked(asked); });
  return found == all.end() ? "--rounding" : found->flag;
}

}  // namespace seqto::cli
