#include "orchestrator/tune/first_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/files.h"
#include "orchestrator/study/summarize.h"
#include "orchestrator/tune/report.h"
#include "seqto/plan.h"
#include "seqto/report.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargest = 20'000'000;

// All that there is to choose from: it stands where summaries have the fully quantized model.
constexpr const char* kId = "first";

// Of those asked for, one that needs no ranges and loses little; nothing where there is none.
std::optional<DetailedScheme> first_scheme(const TuneOptions& o) {
  const std::vector<DetailedScheme> asked = detailed_schemes(o);
  for (const Scheme wanted : {Scheme::kInt8Weights, Scheme::kInt8Dynamic})
    if (const auto found = std::ranges::find(asked, wanted, &DetailedScheme::scheme); found != asked.end())
      return *found;
  return {};
}

}  // namespace

void write_first_front(const Inputs& in, const OpenStudy& open, const Place& place, const Measurement& in_float) {
  const TuneOptions& o = in.options;
  const std::optional<DetailedScheme> scheme = first_scheme(o);
  if (!scheme) return;
  const Plan plan = uniform_plan(in.model, *scheme, o.quantize.exclude);
  if (!searches(o) || !o.dataset.states.empty() || in.model_bytes > kLargest || !open.study.trials().empty() ||
      plan.schemes.empty())
    return;
  Trial baseline{.id = "float", .measurement = in_float}, first{.id = kId, .plan = plan, .part = Part::kSearch};
  baseline.measurement->size_bytes = in.model_bytes;
  const Model model = Quantizer(in.model, {}, o.quantize).quantize(plan);
  if (!no_candidate(in, plan, model).empty()) return;
  first = evaluate(model, std::move(first), {std::span(&place, 1), in.env});
  if (!first.measurement) return;
  first.part = Part::kEvaluation;  // those are judged by, as long as there are no others

  const StudyFolder folder{o.output};
  save_model(model, folder.model(kId));
  write_file_atomic(folder.plan(kId), plan_to_json(plan));
  StudyHeader header = open.study.header();
  header.evaluation_samples = std::ssize(place.search.samples);
  const fs::path file = o.output / "first.jsonl";
  fs::remove(file);
  Ending ending = open.ending;
  std::erase_if(ending.objectives, [](const std::string& name) { return name != "size" && !is_loss(name); });
  ending.limits.clear();
  ending.notes.push_back(fmt::format("a first front, on {} samples: {} everywhere; the search goes on",
                                     place.search.samples.size(), to_string(*scheme)));
  {
    Study study = Study::open(file, header);
    study.append(std::move(baseline));
    study.append(std::move(first));
    Summary summary = summarize(study, o.output, ending);
    name_selected(in, summary);
    write_file_atomic(folder.summary(), summary_to_json(summary));
  }
  fs::remove(file);
  in.env.log(LogLevel::kInfo,
             fmt::format("a first model is there: {}, {} everywhere, {} instead of {}; the search goes on",
                         StudyFolder::kSelected, to_string(*scheme), format_bytes(serialized_size(model)),
                         format_bytes(in.model_bytes)));
}

void remove_first_front(const Inputs& in) {
  const StudyFolder folder{in.options.output};
  fs::remove(folder.model(kId));
  fs::remove(folder.plan(kId));
}

}  // namespace seqto::internal
