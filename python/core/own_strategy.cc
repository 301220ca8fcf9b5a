// A strategy that is a Python object with ask and tell; what it sees of the search.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "module.h"
#include "own_parts.h"

namespace seqto::python {
namespace {

// Without what measures: it may outlive the search.
struct Space {
  std::vector<SearchGroup> groups;
};

std::vector<std::string> choices_of(const SearchGroup& group) {
  std::vector<std::string> names;
  for (const DetailedScheme& scheme : group.schemes) names.push_back(to_string(scheme));
  return names;
}

size_t place_of(const std::string& choice, const SearchGroup& group) {
  const std::vector<std::string> names = choices_of(group);
  const auto found = std::ranges::find(names, choice);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  throw Error(Code::kUsage, "[plan] choice '" + choice + "' found; one of the group's choices expected" +
                                did_you_mean(choice, names));
}

Plan plan_of(const Space& space, const std::vector<std::string>& choices) {
  if (choices.size() != space.groups.size())
    throw Error(Code::kUsage, "[plan] " + std::to_string(choices.size()) + " choices found; one for each of " +
                                  std::to_string(space.groups.size()) + " groups expected");
  Plan plan;
  for (size_t g = 0; g < choices.size(); ++g) {
    const Plan& choice = space.groups[g].choices[place_of(choices[g], space.groups[g])];
    plan.schemes.insert(choice.schemes.begin(), choice.schemes.end());
    plan.options.insert(choice.options.begin(), choice.options.end());
  }
  return plan;
}

struct Told {
  Trial trial;
  std::vector<double> objectives;
  double latency_ns = 0;
};

// Predicted, or where the device does not tell what its nodes cost as the search samples had it.
double latency_of(const Trial& trial, const SearchSpace& space) {
  if (space.latency_of) return space.latency_of(trial.plan);
  return trial.measurement ? static_cast<double>(trial.measurement->latency.median_ns) : NAN;
}

Told told(const Trial& trial, const SearchSpace& space, const StrategyOptions& options) {
  Told result{trial, {}, latency_of(trial, space)};
  for (const std::string& name : options.objectives)
    result.objectives.push_back(!trial.measurement  ? std::numeric_limits<double>::infinity()
                                : name == "latency" ? result.latency_ns
                                                    : objective(*trial.measurement, name));
  return result;
}

class OwnStrategy : public Proposer {
 public:
  OwnStrategy(Held proposer, const SearchSpace& space, const StrategyOptions& options)
      : proposer_(std::move(proposer)), space_(space), options_(options), seen_(view(space)) {}

  std::vector<Plan> ask() override {
    nb::gil_scoped_acquire interpreter;
    std::vector<Plan> plans;
    for (nb::handle plan : nb::borrow<nb::iterable>(proposer_.get().attr("ask")(seen_.get()))) {
      if (!nb::isinstance<Plan>(plan))
        throw nb::type_error("ask(): a list of plans expected, as space.plan() makes them");
      plans.push_back(nb::cast<const Plan&>(plan));
      asked_.emplace_back(nb::borrow(plan));
    }
    return plans;
  }
  void tell(const Trial& trial) override {
    nb::gil_scoped_acquire interpreter;
    proposer_.get().attr("tell")(asked_.front().get(), nb::cast(told(trial, space_, options_)));
    asked_.pop_front();
  }

 private:
  static Held view(const SearchSpace& space) {
    nb::gil_scoped_acquire interpreter;
    return Held(nb::cast(Space{space.groups}));
  }

  const Held proposer_;
  const SearchSpace space_;
  const StrategyOptions options_;
  const Held seen_;
  std::deque<Held> asked_;
};

std::map<std::string, double> losses_of(const Told& t) {
  std::map<std::string, double> losses;
  if (t.trial.measurement)
    for (const std::string& name : loss_names()) losses[name] = objective(*t.trial.measurement, name);
  return losses;
}

}  // namespace

std::unique_ptr<Strategy> own_strategy(const Held& proposer, const SearchSpace& space, const StrategyOptions& options) {
  return make_strategy(std::make_unique<OwnStrategy>(proposer, space, options), space, options);
}

void bind_strategy(nb::module_& m) {
  nb::class_<SearchGroup>(m, "SearchGroup", "Layers that get one scheme together.")
      .def_ro("layers", &SearchGroup::layers, "their names")
      .def_prop_ro("choices", &choices_of, "schemes to choose from, float32 first");
  nb::class_<Space>(m, "SearchSpace", "What a search chooses from.")
      .def_ro("groups", &Space::groups, "in graph order")
      .def("plan", &plan_of, nb::arg("choices"),
           nb::sig("def plan(self, choices: collections.abc.Sequence[str]) -> Plan"),
           "The plan of a choice for each group.");
  nb::class_<Told>(m, "Trial", "What became of a plan on the search samples.")
      .def_prop_ro(
          "failure", [](const Told& t) { return t.trial.measurement ? std::nullopt : std::optional(t.trial.failure); },
          "why it has no figures; None: it has")
      .def_ro("objectives", &Told::objectives,
              "of the search, in their order, all to be minimised: a task metric m as 1 - m; infinite where it failed")
      .def_prop_ro("losses", &losses_of, "against the float model, by name")
      .def_prop_ro(
          "metrics",
          [](const Told& t) {
            return t.trial.measurement ? t.trial.measurement->metrics : std::map<std::string, double>();
          },
          "task metrics that are objectives")
      .def_prop_ro(
          "size_bytes", [](const Told& t) { return t.trial.measurement ? t.trial.measurement->size_bytes : 0; },
          "of the file")
      .def_ro("latency_ns", &Told::latency_ns,
              "predicted where latency is an objective and the device tells what its nodes cost, else a rough median");
}

}  // namespace seqto::python
