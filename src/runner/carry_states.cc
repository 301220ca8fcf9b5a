#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "data/shapes.h"
#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto {
namespace {

struct State {
  StateLink link;
  DataType type = DataType::kUndefined;
  Tensor zero;
};

class StatefulSession : public Session {
 public:
  // The session's last `hidden` outputs are there for the states alone. `pacemaker` computes the states of a model that
  // does not: it runs beside it on the same inputs.
  StatefulSession(std::unique_ptr<Session> inner, const std::vector<State>& states, size_t hidden,
                  std::unique_ptr<Session> pacemaker = nullptr)
      : inner_(std::move(inner)), pacemaker_(std::move(pacemaker)), output_names_(inner_->output_names()) {
    const auto& outputs = (pacemaker_ ? pacemaker_ : inner_)->output_names();
    for (const State& state : states)
      slots_.push_back({position(inner_->input_names(), state.link.input, "input"),
                        position(outputs, state.link.output, "output"),
                        state.zero,
                        state.zero,
                        {}});
    output_names_.resize(output_names_.size() - hidden);
    if (!pacemaker_) return;
    for (const auto& name : pacemaker_->input_names())
      beside_.push_back(position(inner_->input_names(), name, "input"));
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override { return run_timed(inputs).outputs; }

  TimedOutputs run_timed(std::span<const Tensor> inputs) override {
    const std::vector<Tensor> full = with_states(inputs);
    TimedOutputs result = inner_->run_timed(full);
    const std::vector<Tensor> paced = pacemaker_ ? pacemaker_->run(inputs_beside(full)) : std::vector<Tensor>();
    for (Slot& slot : slots_) slot.next = (pacemaker_ ? paced : result.outputs)[slot.output];
    result.outputs.resize(output_names_.size());
    return result;
  }

  // The states do not move: all repeats have the same inputs.
  std::vector<int64_t> time(std::span<const Tensor> inputs, int repeats) override {
    return inner_->time(with_states(inputs), repeats);
  }

  void cancel() noexcept override { inner_->cancel(); }
  const std::vector<std::string>& input_names() const override { return inner_->input_names(); }
  const std::vector<std::string>& output_names() const override { return output_names_; }

 private:
  struct Slot {
    size_t input, output;
    Tensor zero;
    Tensor start;                // of the last run
    std::optional<Tensor> next;  // that it left; none where it failed
  };

  static size_t position(const std::vector<std::string>& names, const std::string& name, const char* kind) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    throw Error(Code::kInvalidInput,
                fmt::format("[run] a model with the {0}s {1} found; the state's {0} '{2}' expected; correct --state",
                            kind, fmt::join(names, ", "), name));
  }

  std::vector<Tensor> with_states(std::span<const Tensor> inputs) {
    std::vector<Tensor> full(inputs.begin(), inputs.end());
    const auto mark = static_cast<int64_t>(element(full.at(slots_.front().input), 0));
    for (Slot& slot : slots_) {
      if (mark == mark_ + 1 && slot.next) slot.start = *slot.next;
      else if (mark != mark_) slot.start = slot.zero;
      slot.next.reset();
      full.at(slot.input) = slot.start;
    }
    mark_ = mark;
    return full;
  }

  std::vector<Tensor> inputs_beside(const std::vector<Tensor>& inputs) const {
    std::vector<Tensor> chosen;
    for (const size_t i : beside_) chosen.push_back(inputs[i]);
    return chosen;
  }

  std::unique_ptr<Session> inner_, pacemaker_;
  std::vector<std::string> output_names_;
  std::vector<Slot> slots_;
  std::vector<size_t> beside_;  // the pacemaker's inputs among those of the session
  int64_t mark_ = -2;           // of the last run; no mark follows it
};

class StatefulRunner : public Runner {
 public:
  StatefulRunner(std::unique_ptr<Runner> inner, Model model, std::vector<State> states)
      : inner_(std::move(inner)), model_(std::move(model)), states_(std::move(states)) {}

  std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override {
    return wrap(model, options, [&](const Model& widened) { return inner_->load(widened, options); });
  }
  std::unique_ptr<Session> load_observed(const Model& model, std::span<const std::string> tensors, Observer& observer,
                                         const SessionOptions& options) override {
    return wrap(model, options,
                [&](const Model& widened) { return inner_->load_observed(widened, tensors, observer, options); });
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    return std::make_unique<StatefulSession>(inner_->load_file(path, options), states_, 0);
  }
  Model optimized(const Model& model) override { return inner_->optimized(model); }
  std::vector<NodePlacement> placement(const Model& model, std::span<const Tensor> inputs, int runs) override {
    std::vector<Tensor> full(inputs.begin(), inputs.end());
    const std::vector<ValueInfo> names = model.graph.free_inputs();
    for (size_t i = 0; i < names.size() && i < full.size(); ++i)
      for (const State& state : states_)
        if (names[i].name == state.link.input) full[i] = state.zero;
    return inner_->placement(model, full, runs);
  }
  ProcessMemory memory() override { return inner_->memory(); }
  std::string description() const override { return inner_->description(); }
  int threads() const override { return inner_->threads(); }

 private:
  Model with_state_outputs(const Model& model) const {
    Model widened = model;
    std::vector<ValueInfo>& outputs = widened.graph.outputs;
    for (const State& state : states_) {
      const std::string& name = state.link.output;
      if (std::none_of(outputs.begin(), outputs.end(), [&](const ValueInfo& v) { return v.name == name; }))
        outputs.push_back({name, state.type, {}, ""});
    }
    return widened;
  }

  // A part that was cut out of a model may go without what makes the states.
  bool makes_states(const Model& model) const {
    std::unordered_set<std::string_view> made;
    for (const Node& node : model.graph.nodes) made.insert(node.outputs.begin(), node.outputs.end());
    return std::all_of(states_.begin(), states_.end(),
                       [&](const State& state) { return made.contains(state.link.output); });
  }

  template <class Load>
  std::unique_ptr<Session> wrap(const Model& model, const SessionOptions& options, Load load) {
    if (!makes_states(model))
      return std::make_unique<StatefulSession>(load(model), states_, 0, inner_->load(model_, options));
    const Model widened = with_state_outputs(model);
    return std::make_unique<StatefulSession>(load(widened), states_,
                                             widened.graph.outputs.size() - model.graph.outputs.size());
  }

  std::unique_ptr<Runner> inner_;
  Model model_;  // in float
  std::vector<State> states_;
};

const ValueInfo& find(std::span<const ValueInfo> infos, const std::string& name, const char* kind) {
  std::vector<std::string> names;
  for (const ValueInfo& info : infos) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  throw Error(Code::kUsage, fmt::format("[run] the state {0} '{1}' found; one of the model's {0}s {2} expected; "
                                        "--state takes OUTPUT=INPUT",
                                        kind, name, fmt::join(names, ", ")));
}

State state_of(const StateLink& link, const Model& model, std::span<const ValueInfo> inputs) {
  const ValueInfo& output = find(model.graph.outputs, link.output, "output");
  const ValueInfo& input = find(inputs, link.input, "input");
  if (input.type != output.type)
    throw Error(Code::kUsage, fmt::format("[run] the state '{}' is {}, its input '{}' {}; one type expected",
                                          link.output, to_string(output.type), link.input, to_string(input.type)));
  std::vector<int64_t> dims = internal::closed_shape(input, inputs);
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  std::vector<std::byte> zeros(static_cast<size_t>(count) * element_bits(input.type) / 8);
  return {link, input.type, Tensor::from(input.type, std::move(dims), std::move(zeros))};
}

}  // namespace

std::unique_ptr<Runner> carry_states(std::unique_ptr<Runner> runner, const Model& model,
                                     const DatasetOptions& options) {
  if (options.states.empty()) return runner;
  std::vector<ValueInfo> inputs = model.graph.free_inputs();
  set_dimensions(inputs, options.dims);
  std::vector<State> states;
  for (const StateLink& link : options.states) states.push_back(state_of(link, model, inputs));
  return std::make_unique<StatefulRunner>(std::move(runner), model, std::move(states));
}

}  // namespace seqto
