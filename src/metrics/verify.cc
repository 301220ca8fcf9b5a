#include "seqto/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "metrics/first_difference.h"
#include "model/op_traits.h"

namespace seqto {
namespace {

using namespace internal;

constexpr SessionOptions kAsWritten{.optimization = SessionOptions::Optimization::kNone};

double worst_error(std::span<const Tensor> wanted, std::span<const Tensor> found) {
  double worst = 0;
  for (size_t o = 0; o < wanted.size(); ++o) worst = std::max(worst, relative_error(wanted[o], found[o]));
  return worst;
}

// A rounding changes all that is behind a choice: what is chosen from takes the place of such outputs.
// Nothing where all outputs are in front of choices.
std::optional<Model> in_front_of_choices(const Model& model) {
  std::unordered_set<std::string> behind, compared;
  for (const Node& node : model.graph.nodes) {
    const bool follows = std::ranges::any_of(node.inputs, [&](const auto& name) { return behind.contains(name); });
    const bool chooses = has(node, kChooses);
    if (chooses && !follows) compared.insert(node.inputs.begin(), node.inputs.end());
    if (chooses || follows) behind.insert(node.outputs.begin(), node.outputs.end());
  }
  const auto is_behind = [&](const ValueInfo& output) { return behind.contains(output.name); };
  if (std::ranges::none_of(model.graph.outputs, is_behind)) return {};
  for (const ValueInfo& output : model.graph.outputs)
    if (!is_behind(output)) compared.insert(output.name);
  std::vector<Between> tensors = tensors_between(model.graph);
  std::erase_if(tensors, [&](const Between& t) { return !compared.contains(t.name); });
  if (tensors.empty()) return {};
  return up_to(model, tensors);
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

std::optional<OptimizationFault> find_optimization_fault(const Model& whole, const SampleRun& on) {
  const std::optional<Model> front = in_front_of_choices(whole);
  const Model& model = front ? *front : whole;
  const auto as_written = on.runner.load(model, kAsWritten), optimized = on.runner.load(model);
  OptimizationFault fault;
  Sample worst;
  for (const int64_t i : on.samples) {
    on.env.stop_if_cancelled("verify");
    Sample sample = on.data.read(i);
    const double error = worst_error(run_sample(*as_written, sample), run_sample(*optimized, sample));
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
