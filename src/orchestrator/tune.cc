#include "seqto/tune.h"

#include <fmt/format.h>

#include "base/files.h"
#include "orchestrator/line_evaluations.h"
#include "orchestrator/study/summarize.h"
#include "orchestrator/tune/forecast.h"
#include "orchestrator/tune/report.h"
#include "seqto/error.h"

namespace seqto {
namespace {

void write(const Summary& summary, const std::filesystem::path& dir, const ReportOptions& options) {
  write_file_atomic(StudyFolder{dir}.summary(), summary_to_json(summary));
  write_report(summary, dir, options);
}

// When the model and its external files were written; nothing of what is not there.
std::vector<std::filesystem::file_time_type> times_of(const internal::Inputs& in) {
  std::vector<std::filesystem::path> files = in.external_files;
  files.push_back(in.options.model);
  std::vector<std::filesystem::file_time_type> times;
  std::error_code error;
  for (const auto& file : files) times.push_back(std::filesystem::last_write_time(file, error));
  return times;
}

}  // namespace

Summary tune(const TuneOptions& asked, const Env& outer) {
  using namespace internal;
  Course course(outer, asked.max_time_seconds);
  const Env& env = course.env();
  TimeBudget time(asked.max_time_seconds, env);
  const auto elsewhere = evaluations_elsewhere(asked, env);
  const Inputs inputs = open_inputs(asked, time, env);
  const auto written = times_of(inputs);
  OpenStudy study = open_study(inputs);
  const Forecast steps = forecast(inputs, study.study);
  course.expect(steps);
  env.log(LogLevel::kInfo, in_words(steps, asked.max_time_seconds));
  References references = measure_references(inputs, study, time);
  const Searched searched = search(inputs, study, references, time, {elsewhere.get()});
  require_candidate(study, searched);
  if (times_of(inputs) != written)
    env.log(
        LogLevel::kWarning,
        fmt::format("{} was written while the run used it; the study is of the model as it was, or of both where it "
                    "was written in place; run again with another --output",
                    inputs.options.model.string()));
  const Report report = close(inputs, study, references, searched, time);
  const std::filesystem::path& output = inputs.options.output;
  write(report.summary, output, report.drawing);
  if (!searched.finished || env.cancelled())
    throw Error(Code::kInterrupted,
                fmt::format("[tune] interrupted after {} trials; {} holds a report of them; run the same command to go "
                            "on",
                            study.study.trials().size(), output.string()));
  return report.summary;
}

Summary report(const std::filesystem::path& dir) {
  Summary summary = read_summary(dir);
  write(summary, dir, {});
  return summary;
}

}  // namespace seqto
