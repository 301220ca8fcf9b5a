#include "orchestrator/tune/first_front.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

void write_first_front(const Inputs& in, const OpenStudy& open, const Place& place, const Measurement& in_float) {
  const TuneOptions& o = in.options;
  const Plan plan = uniform_plan(in.model, Scheme::kInt8Weights, o.quantize.exclude);
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
  ending.notes.push_back(fmt::format("a first front, on {} samples: int8 weights everywhere; the search goes on",
                                     place.search.samples.size()));
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
             fmt::format("a first model is there: {}, {} instead of {}; the search goes on", StudyFolder::kSelected,
                         format_bytes(serialized_size(model)), format_bytes(in.model_bytes)));
}

void remove_first_front(const Inputs& in) {
  const StudyFolder folder{in.options.output};
  fs::remove(folder.model(kId));
  fs::remove(folder.plan(kId));
}

}  // namespace seqto::internal
