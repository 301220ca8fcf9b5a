#include "seqto/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "metrics/first_difference.h"

namespace seqto {
namespace {

using namespace internal;

constexpr SessionOptions kAsWritten{.optimization = SessionOptions::Optimization::kNone};

double worst_error(std::span<const Tensor> wanted, std::span<const Tensor> found) {
  double worst = 0;
  for (size_t o = 0; o < wanted.size(); ++o) worst = std::max(worst, relative_error(wanted[o], found[o]));
  return worst;
}

// The tensors in graph order whose last one differs: the first that does, by halves.
class Search {
 public:
  Search(const Model& model, const SampleRun& on, std::vector<Tensor> inputs)
      : model_(model), on_(on), inputs_(std::move(inputs)), tensors_(tensors_between(model.graph)) {}

  const Node* run(std::string& tensor) {
    size_t last = last_that_differs();
    if (last == tensors_.size()) return nullptr;
    size_t first = 0;
    while (first < last) {
      const size_t middle = first + (last - first) / 2;
      if (differs(middle)) last = middle;
      else first = middle + 1;
    }
    tensor = tensors_[last].name;
    return &model_.graph.nodes[tensors_[last].node];
  }

 private:
  // Of the model's outputs.
  size_t last_that_differs() {
    for (size_t i = tensors_.size(); i-- > 0;)
      if (std::ranges::count(model_.graph.outputs, tensors_[i].name, &ValueInfo::name) > 0 && differs(i)) return i;
    return tensors_.size();
  }

  bool differs(size_t i) {
    on_.env.stop_if_cancelled("verify");
    const Model cut = up_to(model_, std::span(tensors_).subspan(i, 1));
    return worst_error(on_.runner.load(cut, kAsWritten)->run(inputs_), on_.runner.load(cut)->run(inputs_)) >
           kBeyondRounding;
  }

  const Model& model_;
  const SampleRun& on_;
  std::vector<Tensor> inputs_;
  std::vector<Between> tensors_;
};

}  // namespace

std::optional<OptimizationFault> find_optimization_fault(const Model& model, const SampleRun& on) {
  const auto as_written = on.runner.load(model, kAsWritten), optimized = on.runner.load(model);
  OptimizationFault fault;
  Sample worst;
  for (const int64_t i : on.samples) {
    on.env.stop_if_cancelled("verify");
    Sample sample = on.data.read(i);
    const double error = worst_error(as_written->run(sample.inputs), optimized->run(sample.inputs));
    if (error <= fault.error) continue;
    fault.error = error;
    fault.sample = sample.name;
    worst = std::move(sample);
  }
  if (fault.error <= kBeyondRounding) return {};
  if (const Node* node = Search(model, on, std::move(worst.inputs)).run(fault.tensor))
    fault.node = node->name, fault.op_type = node->op_type;
  return fault;
}

std::string to_text(const OptimizationFault& fault) {
  const std::string place = fault.node.empty()
                                ? "in no node alone"
                                : fmt::format("from {} ({}) on, at {}", fault.node, fault.op_type, fault.tensor);
  return fmt::format(
      "the runtime's optimizations change what the model computes, {}: an error of {:.2g} of the outputs' power on "
      "sample {}; other --exclude or --mode may go around it, or run it with the optimizations off",
      place, fault.error, fault.sample);
}

}  // namespace seqto
