#include "quantization/improve/same_answers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/bodies.h"
#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"

namespace seqto::internal {
namespace {

double squared_difference(const Tensor& wanted, const Tensor& found) {
  if (wanted.dims() != found.dims()) return std::numeric_limits<double>::infinity();
  const std::vector<float> a = to_floats(wanted), b = to_floats(found);
  double difference = 0, square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) continue;  // as of a mask
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d, square += static_cast<double>(a[i]) * a[i];
  }
  return difference > 0 ? difference / square : difference;
}

}  // namespace

std::vector<Tensor> SameAnswers::answers(const Model& model) const {
  return run_sample(*on_.runner.load(model), on_.data.read(on_.samples.front()));
}

std::optional<double> SameAnswers::difference(const Model& rewritten) {
  const auto unsteady = [](const Node& node) { return has(node, kChooses | kRandom); };
  bool any = std::ranges::any_of(original_.graph.nodes, unsteady);
  for_each_body_node(original_, [&](const Node& node) { any |= unsteady(node); });
  if (any || on_.samples.empty()) return {};
  if (wanted_.empty()) wanted_ = answers(original_);
  const std::vector<Tensor> found = answers(rewritten);
  double largest = 0;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    if (wanted_[i].type() != DataType::kFloat) continue;
    const double difference = squared_difference(wanted_[i], found.at(i));
    largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(largest, difference);
  }
  return largest;
}

}  // namespace seqto::internal
