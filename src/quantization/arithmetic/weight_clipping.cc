#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "quantization/arithmetic/channels.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Shares of the full range that are tried; 1 is min-max itself, so that the error never grows.
constexpr int kSteps = 32;
constexpr float kSmallestShare = 0.5f;

struct Channel {
  std::vector<float> values;
  float low = 0, high = 0;
};

std::vector<Channel> channels_of(const Tensor& weight, const std::optional<int64_t>& axis) {
  std::vector<float> values = to_floats(weight);
  const Strides s = strides(weight.dims(), axis && *axis < 0 ? *axis + std::ssize(weight.dims()) : axis);
  std::vector<Channel> channels(s.channels);
  for (size_t i = 0; i < values.size(); ++i) {
    Channel& c = channels[i / s.inner % s.channels];
    c.values.push_back(values[i]);
    c.low = std::min(c.low, values[i]);
    c.high = std::max(c.high, values[i]);
  }
  return channels;
}

double squared_error(const std::vector<float>& values, const ScaleZeroPoint& p, QuantLimits codes) {
  const float zero = static_cast<float>(p.zero_point), low = static_cast<float>(codes.lowest),
              high = static_cast<float>(codes.highest);
  double sum = 0;
  for (float x : values) {
    float q = std::clamp(std::nearbyintf(x / p.scale) + zero, low, high);
    float difference = (q - zero) * p.scale - x;
    sum += static_cast<double>(difference) * difference;
  }
  return sum;
}

class Search {
 public:
  Search(const Channel& channel, const WeightRule& rule, bool half)
      : channel_(channel), rule_(rule), half_(half), codes_(quant_limits(rule.type, rule.reduce_range)) {
    consider(1, 1);
  }

  ScaleZeroPoint run() {
    // Dense near 1: with 8 bits the best range is nearly always within a hundredth of the full one.
    auto share = [](int i) {
      float cut = 1 - static_cast<float>(i) / kSteps;
      return 1 - (1 - kSmallestShare) * cut * cut;
    };
    if (rule_.power_of_two) {
      for (float of_range = 0.5f; consider(of_range, of_range);) of_range /= 2;
      return best_;
    }
    for (int i = 0; i < kSteps; ++i) consider(share(i), share(i));
    if (rule_.symmetric) return best_;
    // One end after the other, from the best common share on.
    for (int end = 0; end < 2; ++end) {
      auto shares = shares_;
      for (int i = 0; i <= kSteps; ++i) end == 0 ? consider(share(i), shares.second) : consider(shares.first, share(i));
    }
    return best_;
  }

 private:
  // True where it is the best so far.
  bool consider(float low_share, float high_share) {
    QuantLimits limits = quant_limits(rule_.type, rule_.reduce_range, rule_.symmetric);
    const AffineRule rule{limits, rule_.symmetric, rule_.min_real_range, DataType::kFloat, rule_.power_of_two};
    ScaleZeroPoint p = scale_zero_point(channel_.low * low_share, channel_.high * high_share, rule);
    if (half_) p.scale = rounded(usable_scale(p.scale, DataType::kFloat16, false), DataType::kFloat16);
    double error = squared_error(channel_.values, p, codes_);
    if (error_ && !(error < *error_)) return false;
    error_ = error;
    best_ = p;
    shares_ = {low_share, high_share};
    return true;
  }

  const Channel& channel_;
  const WeightRule& rule_;
  bool half_;
  QuantLimits codes_;
  ScaleZeroPoint best_;
  std::optional<double> error_;
  std::pair<float, float> shares_{1, 1};
};

}  // namespace

QuantParams mse_weight_params(const Tensor& weight, const WeightRule& rule) {
  QuantParams params;
  params.type = rule.type;
  params.axis = rule.axis;
  params.reduced = rule.reduce_range;
  params.power_of_two = rule.power_of_two;
  bool half = weight.type() == DataType::kFloat16;
  for (const Channel& channel : channels_of(weight, rule.axis)) {
    ScaleZeroPoint p = channel.values.empty() ? ScaleZeroPoint{} : Search(channel, rule, half).run();
    params.scale.push_back(p.scale);
    params.zero_point.push_back(p.zero_point);
  }
  return params;
}

}  // namespace seqto::internal

namespace seqto {

std::string_view to_string(WeightClipping clipping) { return clipping == WeightClipping::kMse ? "mse" : "none"; }

WeightClipping parse_weight_clipping(std::string_view name) {
  for (auto clipping : {WeightClipping::kNone, WeightClipping::kMse})
    if (to_string(clipping) == name) return clipping;
  throw Error(Code::kUsage, fmt::format("[quantize] weight clipping '{}' found; none or mse expected", name));
}

}  // namespace seqto
