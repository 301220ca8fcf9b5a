#include "orchestrator/tune/open_study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "base/files.h"
#include "base/machine.h"
#include "metrics/study_header.h"
#include "orchestrator/study/study_files.h"
#include "orchestrator/tune/improvements.h"
#include "runner/link.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

std::string environment_json(const Inputs& in) {
  utsname host{};
  ::uname(&host);
  nlohmann::json j{{"seqto", SEQTO_VERSION},
                   {"runtime", in.devices.front().runner->description()},
                   {"threads", in.options.runner.threads},
                   {"system", fmt::format("{} {} {}", host.sysname, host.release, host.machine)},
                   {"cpu", is_link(in.devices.front().name) ? "" : processor_name()}};  // else in its description
  std::vector<std::string> options;
  for (const auto& [name, value] : in.options.runner.provider_options) options.push_back(name + "=" + value);
  if (!options.empty()) j["provider options"] = fmt::format("{}", fmt::join(options, ", "));
  for (const Device& device : std::span(in.devices).subspan(1))
    j["also on"][device.name] = device.runner->description();
  return j.dump();
}

StudyHeader header_of(const Inputs& in) {
  const TuneOptions& o = in.options;
  const Split& split = in.samples.split;
  TuneOptions measured = o;
  if (in.judged_by_texts) std::ranges::copy(in.text_errors.asked, std::back_inserter(measured.metrics.metrics));
  return {.model_path = o.model.string(),
          .model_sha256 = in.model_sha256,
          .model_size_bytes = in.model_bytes,
          .data_fingerprint = in.samples.data->fingerprint(),
          .options_json = options_json(measured),
          .environment_json = environment_json(in),
          .calibration_samples = std::ssize(split.calibration),
          .search_samples = std::ssize(split.search),
          .evaluation_samples = std::ssize(split.evaluation)};
}

// Latencies of two machines make no front.
void warn_of_other_machine(const Inputs& in, const StudyHeader& found, const StudyHeader& now) {
  if (!by_latency(in.options)) return;
  const auto before = parse_json_if_any(found.environment_json), here = parse_json(now.environment_json);
  if (!before.is_object()) return;
  for (const char* fact : {"cpu", "runtime", "threads", "provider options"}) {
    const std::string was = before.value(fact, nlohmann::json()).dump(), is = here.value(fact, nlohmann::json()).dump();
    if (was != is)
      in.env.log(LogLevel::kWarning,
                 fmt::format("{} {} found; {} expected, as when the study measured its latencies so far: new ones "
                             "cannot be compared with them; give another --output",
                             fact, is, was));
  }
}

std::filesystem::path study_file(const Inputs& in) { return StudyFolder{in.options.output}.study(); }

}  // namespace

OpenStudy read_study(const Inputs& in) {
  const TuneOptions& o = in.options;
  OpenStudy open{Study::read(study_file(in)), {.objectives = o.search.objectives}};
  if (const std::string what = differences(open.study.header(), header_of(in)); !what.empty())
    throw Error(Code::kInvalidInput,
                fmt::format("[eval] model, data or options that are not those of the study in {} found: {}; the same "
                            "expected; give --model and --data",
                            o.output.string(), what));
  if (!notes::kSearchBegins.is_in(open.study))
    throw Error(
        Code::kInvalidInput,
        fmt::format("[eval] a study in {} that has not got as far as its search found; run `seqto ask {}` first",
                    o.output.string(), o.output.string()));
  if (notes::kImprovedRanges.is_in(open.study) && !std::filesystem::exists(corrections_file(o.output)))
    throw Error(Code::kInvalidInput, fmt::format("[eval] {} found missing; what improves candidates expected; copy the "
                                                 "whole folder of the study",
                                                 corrections_file(o.output).string()));
  return open;
}

OpenStudy open_study(const Inputs& in) {
  const TuneOptions& o = in.options;
  if (!begun_study(o)) remove_study(o.output);
  const StudyHeader header = header_of(in);
  OpenStudy open{Study::open(study_file(in), header),
                 {.objectives = o.search.objectives,
                  .notes = in.notes,
                  .limits = o.limits,
                  .tolerance = o.tolerance,
                  .size_note = in.size_note,
                  .items_in_sample = in.samples.items_in_sample}};
  if (!o.config.empty()) write_file_atomic(o.output / kConfigFile, o.config);
  if (const size_t trials = open.study.trials().size(); trials > 0)
    in.env.log(LogLevel::kInfo, fmt::format("going on after {} trials", trials));
  warn_of_other_machine(in, open.study.header(), header);
  if (const auto before = notes::kEnding.in(open.study)) open.ending.wall_seconds = before->wall_seconds;
  if (in.fewer_samples && !notes::kFewerSamples.is_in(open.study))
    notes::kFewerSamples.add(open.study, *in.fewer_samples);
  if (!notes::kLayers.is_in(open.study)) notes::kLayers.add(open.study, layers(in.model));
  return open;
}

}  // namespace seqto::internal
