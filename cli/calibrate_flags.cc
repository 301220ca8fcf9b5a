// The flags of calibration.
#include <fmt/format.h>

#include "flags.h"
#include "seqto/error.h"

namespace seqto::cli {

void add_calibrate_flags(Command word, CalibrateFlags& f) {
  CalibrateOptions& o = f.options;
  word.add_option("--calibration-method,--method", f.method, "Ranges of activations (minmax; to powers of two mse)")
      .type_name("minmax|moving_average|entropy|percentile|mse|distribution");
  const Command detail = word.in_detail();
  detail.add_option("--tensor-method", f.tensor_methods, "Another method for some tensors")
      .delimiter(',')
      .type_name("PATTERN=METHOD");
  detail.add_flag("--exact-ranges,!--fast-ranges", o.exact,
                  "Exactly onnxruntime's ranges | one pass over the optimised model, equal but for rounding");
  detail
      .add_option("--symmetric-ranges", f.symmetric_ranges,
                  "true or false; default: true for percentile, and for mse to powers of two")
      .check_one_of({"true", "false"});
  detail.add_option("--percentile", o.percentile, "Percent of the values that stay inside").capture_default_str();
  detail.add_option("--bins", o.bins, "Bins of the histograms (0: 2048, of entropy 512)").capture_default_str();
  detail.add_option("--quantized-bins", o.quantized_bins, "Steps that entropy reckons with").capture_default_str();
  detail.add_option("--moving-average-constant", o.moving_average_constant, "Weight of a new chunk")
      .capture_default_str();
  detail.add_option("--chunk-samples", o.chunk_samples, "Samples averaged before they move the range (0: all)")
      .capture_default_str();
}

CalibrateOptions CalibrateFlags::parsed(const QuantizeOptions& quantize) const {
  CalibrateOptions o = options;
  if (!method.empty()) o.method = parse_calibration_method(method);
  for (const auto& text : tensor_methods) {
    size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(Code::kUsage, fmt::format("[calibrate] --tensor-method {} found; PATTERN=METHOD was expected", text));
    o.tensor_methods.emplace_back(text.substr(0, equals), parse_calibration_method(text.substr(equals + 1)));
  }
  if (!symmetric_ranges.empty()) o.symmetric = symmetric_ranges == "true";
  take_quantize_options(o, quantize, !method.empty());
  return o;
}

}  // namespace seqto::cli
