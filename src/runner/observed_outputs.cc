// Observation by a runner that cannot look inside: the tensors become outputs of the model. And by an observer that
// knows single tensors only.
#include <unordered_map>
#include <unordered_set>

#include "base/extremes.h"
#include "seqto/runner.h"

namespace seqto {
namespace {

class ObservedSession : public Session {
 public:
  ObservedSession(std::unique_ptr<Session> inner, size_t own_outputs, std::span<const std::string> tensors,
                  Observer& observer)
      : inner_(std::move(inner)), own_outputs_(own_outputs), observer_(observer) {
    std::unordered_map<std::string, size_t> places;
    for (size_t o = 0; o < inner_->output_names().size(); ++o) places[inner_->output_names()[o]] = o;
    for (size_t t = 0; t < tensors.size(); ++t)
      if (auto it = places.find(tensors[t]); it != places.end()) observed_.emplace_back(t, it->second);
    output_names_.assign(inner_->output_names().begin(),
                         inner_->output_names().begin() + static_cast<std::ptrdiff_t>(own_outputs));
  }
  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    auto outputs = inner_->run(inputs);
    for (auto [tensor, place] : observed_) observer_.observe(tensor, outputs[place].type(), outputs[place].bytes());
    outputs.resize(own_outputs_);
    return outputs;
  }
  const std::vector<std::string>& input_names() const override { return inner_->input_names(); }
  const std::vector<std::string>& output_names() const override { return output_names_; }

 private:
  std::unique_ptr<Session> inner_;
  size_t own_outputs_;
  Observer& observer_;
  std::vector<std::pair<size_t, size_t>> observed_;  // tensor, output
  std::vector<std::string> output_names_;
};

}  // namespace

void Observer::observe_clipped(const ClippedValues& v) {
  observe(v.tensor, DataType::kFloat, std::as_bytes(v.values));
  std::vector<float> clipped(v.values.size());
  internal::clip_values(v.values.data(), clipped.size(), v.lowest, v.highest, clipped.data());
  observe(v.clipped_tensor, DataType::kFloat, std::as_bytes(std::span(clipped)));
}

std::unique_ptr<Session> Runner::load_observed(const Model& model, std::span<const std::string> tensors,
                                               Observer& observer, const SessionOptions& options) {
  Model widened = model;
  std::unordered_set<std::string> outputs;
  for (const ValueInfo& v : model.graph.outputs) outputs.insert(v.name);
  std::unordered_map<std::string, const ValueInfo*> known;
  for (const auto* list : {&model.graph.value_info, &model.graph.inputs})
    for (const ValueInfo& v : *list) known[v.name] = &v;
  for (const auto& tensor : tensors)
    if (known.contains(tensor) && outputs.insert(tensor).second) widened.graph.outputs.push_back(*known.at(tensor));
  return std::make_unique<ObservedSession>(load(widened, options), model.graph.outputs.size(), tensors, observer);
}

}  // namespace seqto
