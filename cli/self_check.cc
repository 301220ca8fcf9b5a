#include "self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "seqto/error.h"
#include "seqto/explain.h"
#include "seqto/metrics.h"
#include "seqto/report.h"
#include "seqto/target.h"
#include "seqto/task.h"
#include "seqto/tune.h"
#include "seqto/validate.h"

namespace seqto::cli {
namespace {

// Run in both models they take less time than calibrating on 50, the default.
constexpr int64_t kMost = 16;

// By the tolerance of `tune`: a model that changes that share of the answers changes so many of these in less than one
// case of twenty. Of 16 answers it is two, of four or fewer one.
bool is_ruined(double changed_share, int64_t samples) {
  constexpr double kRare = 0.05;
  const double share = TuneOptions().tolerance, kept = 1 - share;
  const auto changed = std::llround(changed_share * static_cast<double>(samples));
  double exactly = std::pow(kept, samples), fewer = 0;  // that many change, by the binomial distribution
  for (int64_t k = 0; k < changed; ++k) {
    fewer += exactly;
    exactly *= static_cast<double>(samples - k) / static_cast<double>(k + 1) * share / kept;
  }
  return 1 - fewer < kRare;
}

// Whether weights may have a scale for each channel there.
bool takes_channels(const Target& target) {
  QuantizeOptions options;
  take_target_types(options, target);
  return options.per_channel;
}

bool takes_16_bits(const Target& target) {
  return std::ranges::any_of(target.rules, [](const TargetRule& rule) {
    return rule.as == TargetRule::As::kIntegers && std::ranges::count(rule.activations, DataType::kInt16) > 0;
  });
}

// Ten times what `tune` takes for as good as float: the error is a tenth of the outputs' own power.
double ruined_loss() { return 10 * TuneOptions().tolerance; }

int64_t other_shapes(const Outputs& wanted, const Outputs& found) {
  int64_t count = 0;
  for (int64_t i = 0; i < wanted.rows; ++i) count += wanted.row(i).size() != found.row(i).size();
  return count;
}

std::string in_words(const SelfCheck& check, const Outputs& wanted, const Outputs& found) {
  const std::string samples =
      fmt::format("{} {} sample{}", check.on.samples.size(), check.on.held_back ? "held-back" : "calibration",
                  check.on.samples.size() == 1 ? "" : "s");
  const double percent = 100 * check.value;
  std::string text = check.figure != "top1_disagreement"
                         ? fmt::format("loses {} {:.2g} against float on {}", check.figure, check.value, samples)
                     : wanted.labels
                         ? fmt::format("{:.2g} % of its whole numbers differ from float's on {}", percent, samples)
                         : fmt::format("differs from float on {:.0f} % of {}", percent, samples);
  if (const int64_t others = other_shapes(wanted, found); others > 0)
    text +=
        fmt::format(", of which it answers {} in another shape: how long the output is depends on its values", others);
  return text;
}

// Of samples that differ in shape the first answer alone has the form that tells what the model is for.
Outputs first_answer(const Outputs& wanted, const Model& model, const SampleRun& run) {
  if (wanted.ends.empty()) return wanted;
  return reference_outputs(model, {run.data, run.samples.first(1), run.runner, run.env});
}

void judge(SelfCheck& check, std::string_view loss, const Outputs& wanted, const Outputs& found) {
  const Losses losses = compare(wanted, found);
  const bool by_class = loss == "kl" || loss == "top1_disagreement";
  check.figure = by_class ? "top1_disagreement" : loss == "mse" ? "mse" : "nmse";
  check.value = by_class ? losses.top1_disagreement : loss == "mse" ? losses.mse : losses.nmse;
  // Of one number the loss has the number's scale: what is left of it has none.
  check.ruined = by_class ? is_ruined(check.value, std::ssize(check.on.samples)) : losses.nmse > ruined_loss();
  check.text = in_words(check, wanted, found);
}

// Of a file that grew by so much.
std::string why_grown(const Quantized& made, const std::filesystem::path& file, const std::string& by) {
  const auto in_halves = [](const Model& model) { return quantized_form(model).form == "float16"; };
  if (in_halves(made.model) && in_halves(load_model(file)))
    return fmt::format("the file grew by {}: the model was in float16 already; --mode weights makes it smaller", by);
  return fmt::format("the file grew by {}: its weights are fewer than what quantizing adds; nothing is saved here", by);
}

}  // namespace

bool can_teach(const DataFlags& data) { return data.path != "random" && data.options.states.empty(); }

Judged hold_back(Workbench& bench, uint64_t seed) {
  const int64_t size = std::ssize(bench.samples), count = std::min(kMost, size / 4);
  if (count == 0) return {};
  // The last of a mixed order: what is left is as mixed as before.
  std::vector<int64_t> order = mixed_order(*bench.data, seed);
  Judged held{{order.end() - count, order.end()}, true};
  std::ranges::sort(held.samples);
  std::erase_if(bench.samples, [&](int64_t i) { return std::ranges::binary_search(held.samples, i); });
  return held;
}

Judged some_of(const std::vector<int64_t>& samples) {
  Judged some;
  const int64_t size = std::ssize(samples), count = std::min(kMost, size);
  for (int64_t i = 0; i < count; ++i) some.samples.push_back(samples[static_cast<size_t>(i * size / count)]);
  return some;
}

std::optional<SelfCheck> self_check(const Quantized& made, const std::filesystem::path& file, const Workbench& bench,
                                    const Judged& on, const Env& env) {
  if (on.samples.empty() || bench.data->is_random()) return {};
  const SampleRun run{*bench.data, on.samples, *bench.runner, env};
  SelfCheck check{.on = on};
  // Neither is a failure of the command, whose file is written.
  const char* refused = "is not compared with float";
  try {
    const Outputs wanted = reference_outputs(made.given, run);
    refused = "does not run here";  // written for another runtime than this
    const Outputs found = outputs_like(wanted, *bench.runner->load(made.model), run);
    const FirstAnswer first{.outputs = first_answer(wanted, made.given, run),
                            .sample = bench.data->read(on.samples.front()),
                            .model = file};
    judge(check, find_reading({}, made.given, first).task->loss, wanted, found);
  } catch (const Error& error) {
    if (error.code() != Code::kInvalidInput) throw;
    check.text = fmt::format("{}: {}", refused, error.what());
  }
  return check;
}

std::string advice(const WordFlags& f, const QuantizeOptions& made_with) {
  std::optional<Target> target;
  if (!f.target.empty()) target = load_target(f.target);
  if (f.plan.empty() && f.mode == "static") {
    if (!f.improve.improves() && f.ranges.empty()) return "--improve";
    if (!made_with.per_channel && (!target || takes_channels(*target))) return "--per-channel";
  }
  if (f.plan.empty() && f.mode == "dynamic") return "--mode static, or --mode weights";
  if (target && target->floats.empty())
    return fmt::format("{}: {} computes nothing in float",
                       takes_16_bits(*target) ? "--activation-type int16" : "more samples, or another --method",
                       target->name);
  return fmt::format("seqto tune {}{} -o DIR, which leaves in float what has to stay", f.model, f.given_for_tune);
}

std::vector<std::string> surprises(const Quantized& made, const std::filesystem::path& file, int64_t float_bytes,
                                   int64_t bytes) {
  std::vector<std::string> said;
  const auto convolutions = std::ranges::count(made.model.graph.nodes, "ConvInteger", &Node::op_type);
  if (convolutions > 0)
    said.push_back(
        fmt::format("{} convolutions are quantized while they run, which takes up to 24 times as long as in "
                    "float; --mode static is the fast one",
                    convolutions));
  if (bytes > float_bytes) said.push_back(why_grown(made, file, format_bytes(bytes - float_bytes)));
  return said;
}

}  // namespace seqto::cli
