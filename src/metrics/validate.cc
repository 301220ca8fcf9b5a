#include "seqto/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "data/shapes.h"
#include "metrics/limits.h"
#include "metrics/loss/output_values.h"
#include "metrics/scored_pair.h"
#include "seqto/error.h"

namespace seqto {
namespace {

std::vector<std::string> names(const std::vector<ValueInfo>& infos) {
  std::vector<std::string> list;
  for (const ValueInfo& v : infos) list.push_back(v.name);
  std::ranges::sort(list);
  return list;
}

bool can_be_equal(const ValueInfo& a, const ValueInfo& b) {
  if (!a.shape || !b.shape) return true;
  return std::ranges::equal(*a.shape, *b.shape, [](const Dimension& x, const Dimension& y) {
    return x.value < 0 || y.value < 0 || x.value == y.value;
  });
}

void require_same(const char* kind, const std::vector<ValueInfo>& reference, const std::vector<ValueInfo>& candidate) {
  if (names(reference) != names(candidate))
    throw Error(Code::kInvalidInput,
                fmt::format("[validate] the candidate's {}s {} found; {} expected, as the reference has; compare two "
                            "forms of one model",
                            kind, fmt::join(names(candidate), ", "), fmt::join(names(reference), ", ")));
  for (const ValueInfo& wanted : reference) {
    const ValueInfo& found = *std::ranges::find(candidate, wanted.name, &ValueInfo::name);
    if (!can_be_equal(wanted, found))
      throw Error(Code::kInvalidInput,
                  fmt::format("[validate] the candidate's {} '{}' of shape {} found; {} expected, as the reference "
                              "has; compare two forms of one model",
                              kind, wanted.name, internal::shape_text(found), internal::shape_text(wanted)));
  }
}

// Scores of classes have one axis; a batch of 1 and what else is 1 does not count.
bool like_scores(const Tensor& t) {
  return !internal::is_integer(t.type()) && std::ranges::count_if(t.dims(), [](int64_t d) { return d > 1; }) == 1;
}

std::vector<double> values_of(const Tensor& t) {
  std::vector<double> values(static_cast<size_t>(t.element_count()));
  if (t.type() == DataType::kFloat) std::ranges::copy(t.values<float>(), values.begin());
  else
    for (size_t i = 0; i < values.size(); ++i) values[i] = element(t, static_cast<int64_t>(i));
  return values;
}

void count(double value, NonFinite& counts) {
  counts.nan += std::isnan(value);
  counts.infinite += std::isinf(value);
}

// An output, filled sample by sample.
class Comparison {
 public:
  explicit Comparison(std::string name) { parity_.name = std::move(name); }

  // Nobody reads hidden positions, so they do not count.
  void add(const Tensor& reference, const Tensor& candidate, std::span<const char> counted, SampleParity& sample) {
    check(reference, candidate, sample);
    const std::vector<double> a = values_of(reference), b = values_of(candidate);
    std::vector<double> read_a, read_b;  // where some are hidden
    SampleParity here{sample.index, sample.name, parity_.name};
    const size_t position = internal::hides_positions(reference, counted) ? a.size() / counted.size() : 0;
    double sum = 0;
    int64_t comparable = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (position > 0 && !counted[i / position]) continue;
      if (position > 0) read_a.push_back(a[i]), read_b.push_back(b[i]);
      count(a[i], parity_.reference);
      count(b[i], parity_.candidate);
      const double difference = a[i] == b[i] ? 0 : std::abs(a[i] - b[i]);
      if (!std::isfinite(difference)) {
        ++here.incomparable;
        continue;
      }
      ++comparable;
      sum += difference;
      here.max_abs = std::max(here.max_abs, difference);
      if (compared_++ == 0 || difference > parity_.max_abs) {
        parity_.max_abs = difference;
        parity_.max_sample = sample.name;
        parity_.max_index = static_cast<int64_t>(i);
        parity_.max_reference = a[i], parity_.max_candidate = b[i];
      }
    }
    sum_ += sum;
    here.mean_abs = comparable > 0 ? sum / static_cast<double>(comparable) : 0;
    if (here.incomparable > 0 && parity_.incomparable == 0) parity_.first_incomparable = sample.name;
    parity_.incomparable += here.incomparable;
    parity_.values = static_cast<int64_t>(a.size());
    count_agreement(reference, position > 0 ? read_a : a, position > 0 ? read_b : b);
    if (sample.output.empty() || worse(here, sample)) sample = here;
  }

  OutputParity result() const {
    OutputParity parity = parity_;
    if (compared_ > 0) parity.mean_abs = sum_ / static_cast<double>(compared_);
    if (samples_ > 0) parity.top1_agreement = static_cast<double>(agreed_) / static_cast<double>(samples_);
    return parity;
  }

  static bool worse(const SampleParity& a, const SampleParity& b) {
    return std::pair(a.incomparable, a.max_abs) > std::pair(b.incomparable, b.max_abs);
  }

 private:
  void check(const Tensor& reference, const Tensor& candidate, const SampleParity& sample) const {
    for (const Tensor* t : {&reference, &candidate})
      if (t->type() == DataType::kUndefined || t->type() == DataType::kString)
        throw Error(Code::kInvalidInput,
                    fmt::format("[validate] output '{}' is no tensor of numbers; tensors were expected; leave that "
                                "output out of both models",
                                parity_.name));
    if (reference.dims() != candidate.dims())
      throw Error(
          Code::kInvalidInput,
          fmt::format("[validate] output '{}' of shape [{}] found at sample '{}'; [{}] expected, as the "
                      "reference gives; compare two forms of one model",
                      parity_.name, fmt::join(candidate.dims(), ", "), sample.name, fmt::join(reference.dims(), ", ")));
  }

  void count_agreement(const Tensor& reference, const std::vector<double>& a, const std::vector<double>& b) {
    auto has_nan = [](const std::vector<double>& v) {
      return std::ranges::any_of(v, [](double x) { return std::isnan(x); });
    };
    auto first_class = [](const std::vector<double>& v) { return std::ranges::max_element(v) - v.begin(); };
    if (internal::is_integer(reference.type())) agreed_ += a == b;
    else if (like_scores(reference)) agreed_ += !has_nan(a) && !has_nan(b) && first_class(a) == first_class(b);
    else return;
    ++samples_;
  }

  OutputParity parity_;
  double sum_ = 0;
  int64_t compared_ = 0, samples_ = 0, agreed_ = 0;
};

void keep_worst(std::vector<SampleParity>& worst, SampleParity sample, size_t most) {
  if (sample.incomparable == 0 && sample.max_abs == 0) return;
  auto at = std::ranges::upper_bound(worst, sample, Comparison::worse);
  worst.insert(at, std::move(sample));
  if (worst.size() > most) worst.pop_back();
}

using Pairs = std::vector<std::pair<Tensor, Tensor>>;  // of each output what was expected and what was found

// A limit that nothing is held against would always be met.
void require_agreement(const Parity& parity) {
  if (parity.options.min_top1_agreement <= 0 ||
      std::ranges::any_of(parity.outputs, [](const OutputParity& o) { return o.top1_agreement.has_value(); }))
    return;
  throw Error(
      Code::kInvalidInput,
      "[validate] --min-top1-agreement and no output like scores of classes found; float values along one axis, "
      "or whole numbers, expected; for scores of positions or pixels give --max-loss top1_disagreement=VALUE");
}

// `pairs_of(sample, index)` for one sample after the other.
template <class F>
Parity compare_all(Parity parity, const std::vector<std::string>& outputs, const Dataset& data, const Env& env,
                   F pairs_of) {
  std::vector<Comparison> comparisons(outputs.begin(), outputs.end());
  parity.samples = data.size();
  parity.random_inputs = data.is_random();
  for (int64_t i = 0; i < parity.samples; ++i) {
    env.stop_if_cancelled("validate");
    const Sample sample = data.read(i);
    const Pairs pairs = pairs_of(sample, i);
    SampleParity worst{i, sample.name, ""};
    for (size_t o = 0; o < comparisons.size(); ++o)
      comparisons[o].add(pairs[o].first, pairs[o].second, sample.counted, worst);
    keep_worst(parity.worst, std::move(worst), parity.options.worst);
    env.progress({"validate", i + 1, parity.samples, ""});
  }
  for (const Comparison& c : comparisons) parity.outputs.push_back(c.result());
  require_agreement(parity);
  return parity;
}

TaskParity task_parity(const internal::ScoredPair& scored, const ParityOptions& options, const Env& env) {
  TaskParity task;
  std::tie(task.reference, task.candidate) = scored.measured(env);
  const Figures figures = figures_of(task.candidate, task.reference);
  for (const auto& [name, _] : task.candidate.metrics)
    if (const auto found = figures.find(internal::drop_figure(name)); found != figures.end())
      task.drops[name] = found->second;
  task.mcnemar = mcnemar(task.candidate, task.reference);
  if (!options.limits.empty()) task.limits = check(figures, with_loss(options.limits, scored.loss()), options.gate);
  return task;
}

// By name where the data have it, else by position, as ONNX's own test runner takes them.
const Tensor& expected_output(const Sample& sample, const std::vector<std::string>& outputs, size_t index) {
  const auto found = std::ranges::find(sample.expected, outputs[index], &Initializer::name);
  if (found != sample.expected.end()) return found->tensor;
  if (sample.expected.size() == outputs.size()) return sample.expected[index].tensor;
  throw Error(Code::kInvalidInput,
              fmt::format("[validate] the data hold no expected output '{}' for sample '{}'; ONNX's test data with "
                          "output_<n>.pb were expected, or a second model to compare with",
                          outputs[index], sample.name));
}

}  // namespace

void require_same_signature(const Model& reference, const Model& candidate) {
  require_same("input", reference.graph.free_inputs(), candidate.graph.free_inputs());
  require_same("output", reference.graph.outputs, candidate.graph.outputs);
}

bool passed(const OutputParity& o, const ParityOptions& options) {
  return o.incomparable == 0 && o.max_abs <= options.abs_tol && o.mean_abs <= options.mean_tol &&
         o.top1_agreement.value_or(1) >= options.min_top1_agreement;
}

bool passed(const Parity& parity) {
  return std::ranges::all_of(parity.outputs, [&](const OutputParity& o) { return passed(o, parity.options); }) &&
         (!parity.task || std::ranges::all_of(parity.task->limits, &CheckedLimit::met));
}

Parity validate(const ParitySide& reference, const ParitySide& candidate, const ParityOptions& options,
                const Env& env) {
  auto first = reference.runner->load_file(reference.path), second = candidate.runner->load_file(candidate.path);
  const std::vector<size_t> at = internal::places(first->output_names(), second->output_names());
  const bool same = candidate.data == reference.data;
  Parity parity;
  parity.reference = reference.path, parity.candidate = candidate.path;
  parity.reference_runner = reference.runner->description();
  parity.candidate_runner = candidate.runner->description();
  parity.options = options;
  std::optional<internal::ScoredPair> scored;
  if (!options.metrics.empty() || !options.own_metrics.empty() || !options.limits.empty())
    scored.emplace(options.metrics, options.own_metrics, reference.path,
                   internal::ScoredPair::Names{first->output_names(), first->output_names()},
                   reference.data->has_labels());
  parity =
      compare_all(std::move(parity), first->output_names(), *reference.data, env, [&](const Sample& sample, int64_t i) {
        const auto expected = run_sample(*first, sample);
        const auto found = internal::in_order(run_sample(*second, same ? sample : candidate.data->read(i)), at);
        Pairs pairs;
        for (size_t o = 0; o < expected.size(); ++o) pairs.emplace_back(expected[o], found[o]);
        if (scored) scored->append(sample, expected, found);
        return pairs;
      });
  if (scored) parity.task = task_parity(*scored, options, env);
  return parity;
}

Parity validate_expected(const ParitySide& candidate, const ParityOptions& options, const Env& env) {
  auto session = candidate.runner->load_file(candidate.path);
  Parity parity;
  parity.reference = "the data", parity.candidate = candidate.path;
  parity.candidate_runner = candidate.runner->description();
  parity.options = options;
  return compare_all(std::move(parity), session->output_names(), *candidate.data, env,
                     [&](const Sample& sample, int64_t) {
                       const auto found = run_sample(*session, sample);
                       Pairs pairs;
                       for (size_t o = 0; o < found.size(); ++o)
                         pairs.emplace_back(expected_output(sample, session->output_names(), o), found[o]);
                       return pairs;
                     });
}

}  // namespace seqto
