// A device that is a Python function: it loads a model and gives a function that runs it.
#include <chrono>
#include <cmath>

#include "own_parts.h"

namespace seqto::python {
namespace {

// What `work` raises is an Error of the device; a KeyboardInterrupt and its like stay what they are.
template <class F>
auto guarded(const std::string& device, F&& work) {
  nb::gil_scoped_acquire interpreter;
  try {
    return work();
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    throw RaisedByDevice(device, error);
  }
}

class OwnSession : public Session {
 public:
  OwnSession(std::string device, const Model& model, nb::object run)
      : device_(std::move(device)), run_(std::move(run)), types_(model.graph.outputs) {
    for (const ValueInfo& input : model.graph.free_inputs()) inputs_.push_back(input.name);
    for (const ValueInfo& output : types_) outputs_.push_back(output.name);
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override { return run_timed(inputs).outputs; }

  TimedOutputs run_timed(std::span<const Tensor> inputs) override {
    return guarded(device_, [&] {
      nb::dict given;
      for (size_t i = 0; i < inputs_.size(); ++i) given[inputs_[i].c_str()] = to_numpy(inputs[i]);
      using Clock = std::chrono::steady_clock;
      const auto begin = Clock::now();
      const nb::object found = run_.get()(given);
      const int64_t ns = std::chrono::nanoseconds(Clock::now() - begin).count();
      return TimedOutputs{tensors_of(found), told_ns().value_or(ns)};
    });
  }

  const std::vector<std::string>& input_names() const override { return inputs_; }
  const std::vector<std::string>& output_names() const override { return outputs_; }

 private:
  // What the function says in place of the clock.
  std::optional<int64_t> told_ns() const {
    if (!nb::hasattr(run_.get(), "latency_ns")) return std::nullopt;
    constexpr double kLongest = 1e18;  // 31 years
    const nb::object told = run_.get().attr("latency_ns");
    double ns = -1;
    if (nb::try_cast(told, ns) && ns >= 0 && ns <= kLongest) return std::llround(ns);
    throw Error(Code::kInvalidInput, "[" + device_ + "] latency_ns of " + nb::cast<std::string>(nb::repr(told)) +
                                         " found; a number of nanoseconds, 0 or more, expected");
  }

  std::vector<Tensor> tensors_of(const nb::object& found) const {
    const bool named = nb::hasattr(found, "keys");
    if (!named && !nb::isinstance<nb::list>(found) && !nb::isinstance<nb::tuple>(found))
      throw Error(Code::kInvalidInput, "[" + device_ + "] outputs of type " +
                                           nb::cast<std::string>(found.type().attr("__name__")) +
                                           " found; a dict by name, or a list in the model's order expected");
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < types_.size(); ++i) {
      const nb::object one = named ? nb::object(found[types_[i].name.c_str()]) : nb::object(found[nb::int_(i)]);
      outputs.push_back(tensor_of(one, types_[i].type, true, "the output '" + types_[i].name + "'"));
    }
    return outputs;
  }

  const std::string device_;
  const Held run_;
  const std::vector<ValueInfo> types_;
  std::vector<std::string> inputs_, outputs_;
};

class OwnDevice : public Runner {
 public:
  OwnDevice(std::string name, Held load) : name_(std::move(name)), load_(std::move(load)) {}

  std::unique_ptr<Session> load(const Model& model, const SessionOptions&) override {
    return guarded(name_, [&] {
      nb::object run = load_.get()(nb::cast(model));
      return std::make_unique<OwnSession>(name_, model, std::move(run));
    });
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    return load(load_model(path), options);
  }
  Model optimized(const Model&) override {
    throw Error(Code::kUnavailable, "[" + name_ + "] a device of your own optimizes no models; the CPU does that");
  }
  std::string description() const override { return name_ + " (own device)"; }

 private:
  const std::string name_;
  const Held load_;
};

}  // namespace

std::unique_ptr<Runner> own_device(const std::string& name, const Held& load) {
  return std::make_unique<OwnDevice>(name, load);
}

}  // namespace seqto::python
