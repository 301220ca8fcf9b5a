// Room: quantization/encode. Scales and zero points of activations.
#pragma once

#include <optional>
#include <string>

#include "quantization/arithmetic/arithmetic.h"
#include "quantization/calibration/range_view.h"
#include "quantization/plan/overrides.h"

namespace seqto::internal {

// Parameters of an activation with this range, as an override wants them where there is one.
QuantParams activation_params(const Range& range, const QuantizeOptions& options,
                              DataType float_type = DataType::kFloat, const ParamsOverride* set = nullptr);

// Parameters of activations, from their ranges and overrides; nothing where there is no range.
class ActivationParams {
 public:
  ActivationParams(const RangeView& ranges, const GraphView& index, const QuantizeOptions& options)
      : ranges_(ranges), index_(index), options_(options) {}

  std::optional<QuantParams> original(const std::string& tensor) const;
  // The second form, of tensors that are converted for some of their readers.
  std::optional<QuantParams> converted(const std::string& tensor) const;
  // The form that this node reads.
  std::optional<QuantParams> read_by(const std::string& tensor, const LayerId& node) const;
  // Whether it shares its range with what it is added to or joined with.
  bool is_joined(const std::string& tensor) const { return ranges_.is_joined(tensor); }
  DataType float_type(const std::string& tensor) const;

 private:
  QuantParams params(const std::string& tensor, const ParamsOverride* set) const;

  const RangeView& ranges_;
  const GraphView& index_;
  const QuantizeOptions& options_;
};

}  // namespace seqto::internal
