#include "quantization/improve/same_answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "model/bodies.h"
#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"

namespace seqto::internal {
namespace {

struct Squares {
  double difference = 0, all = 0;
  void add(const Tensor& wanted, const Tensor& found) {
    if (wanted.dims() != found.dims()) {
      difference = std::numeric_limits<double>::infinity();
      return;
    }
    const std::vector<float> a = to_floats(wanted), b = to_floats(found);
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(a[i])) continue;  // as of a mask
      const double d = static_cast<double>(a[i]) - b[i];
      difference += d * d, all += static_cast<double>(a[i]) * a[i];
    }
  }
  double share() const {
    const double share = difference > 0 ? difference / all : difference;
    return std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
  }
};

}  // namespace

std::optional<double> SameAnswers::difference(const Model& other) const {
  const auto unsteady = [](const Node& node) { return has(node, kChooses | kRandom); };
  bool any = std::ranges::any_of(original_.graph.nodes, unsteady);
  for_each_body_node(original_, [&](const Node& node) { any |= unsteady(node); });
  if (any || on_.samples.empty()) return {};
  const auto original = on_.runner.load(original_), session = on_.runner.load(other);
  std::vector<Squares> outputs(original_.graph.outputs.size());
  const int64_t all = std::ssize(on_.samples), count = std::min(all, max_samples_);
  for (int64_t k = 0; k < count; ++k) {
    on_.env.stop_if_cancelled("improve");
    const Sample sample = on_.data.read(on_.samples[static_cast<size_t>(k * all / count)]);
    const std::vector<Tensor> wanted = run_sample(*original, sample), found = run_sample(*session, sample);
    for (size_t o = 0; o < wanted.size(); ++o)
      if (wanted[o].type() == DataType::kFloat) outputs.at(o).add(wanted[o], found.at(o));
  }
  double largest = 0;
  for (const Squares& squares : outputs) largest = std::max(largest, squares.share());
  return largest;
}

}  // namespace seqto::internal
