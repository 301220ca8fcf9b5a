// Python's own parts as the library's: data sets, metrics, devices and strategies that call objects of the interpreter.
// What these raise passes through the run and is raised by the verb.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "options.h"
#include "seqto/error.h"
#include "seqto/runner.h"
#include "seqto/tune.h"

namespace seqto::python {

// An object that any thread may hold and let go.
class Held {
 public:
  explicit Held(nb::object object);
  nb::handle get() const { return *object_; }

 private:
  std::shared_ptr<nb::object> object_;
};

// What a device raised: a candidate's failure, or, where the run cannot do without it, the end of the verb.
class RaisedByDevice : public Error {
 public:
  RaisedByDevice(const std::string& device, const nb::python_error& error);
  void raise() const { nb::python_error(*error_).restore(); }

 private:
  std::shared_ptr<const nb::python_error> error_;
};

// Whether samples are read one by one: it has a length and items, and is no list, tuple, dict, array or reader.
bool is_sequence_of_samples(nb::handle given);
// An item is one sample: an array, a dict or a tuple of arrays, with or without an axis for the batch. Behind them, or
// as "y", there may be a label (a whole number), or the numbers to predict. Throws Error{kInvalidInput} for items that
// do not fit the inputs, and where the first one is another when it is read again.
std::unique_ptr<Dataset> open_sequence(nb::handle sequence, std::span<const ValueInfo> inputs,
                                       const DatasetOptions& options = {});

// metric(answers, truth) -> a number, or one for each sample.
std::shared_ptr<const Metric> own_metric(nb::handle function);
// load(model) -> run; run(inputs) -> outputs.
std::unique_ptr<Runner> own_device(const std::string& name, const Held& load);
// ask(space) -> plans; tell(plan, trial).
std::unique_ptr<Strategy> own_strategy(const Held& proposer, const SearchSpace& space, const StrategyOptions& options);

// A device as a keyword names it: one of the library's, or a function that loads a model.
struct GivenDevice {
  std::string name = "cpu";
  std::optional<Held> load;
};
inline constexpr char kDevice[] = "str | seqto._types.Device";
GivenDevice device_of(nb::handle given);

// How it is called in a study: its `name`, or that of the function or class. Throws TypeError for a lambda.
std::string name_of(nb::handle part);

// The keywords device, devices, metrics and strategy of tune; metrics of validate.
void take_own_parts(Keywords& keywords, TuneOptions& options);
void tell_own_parts(Signature& signature);
Metrics take_metrics(Keywords& keywords, MetricOptions& options);
void tell_metrics(Signature& signature);

}  // namespace seqto::python
