#include "orchestrator/tune/open_study.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <nlohmann/json.hpp>
#include <span>

#include "base/machine.h"
#include "orchestrator/study/remove_files.h"
#include "runner/link.h"

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
  for (const Device& device : std::span(in.devices).subspan(1))
    j["also on"][device.name] = device.runner->description();
  return j.dump();
}

}  // namespace

OpenStudy open_study(const Inputs& in) {
  const TuneOptions& o = in.options;
  const Split& split = in.samples.split;
  const StudyHeader header{.model_path = o.model.string(),
                           .model_sha256 = in.model_sha256,
                           .model_size_bytes = in.model_bytes,
                           .data_fingerprint = in.samples.data->fingerprint(),
                           .options_json = options_json(o),
                           .environment_json = environment_json(in),
                           .calibration_samples = std::ssize(split.calibration),
                           .search_samples = std::ssize(split.search),
                           .evaluation_samples = std::ssize(split.evaluation)};
  const std::filesystem::path file = o.output / "study.jsonl";
  if (!o.resume) remove_study(o.output);
  OpenStudy open{Study::open(file, header),
                 {.objectives = o.search.objectives, .notes = in.notes, .limits = o.limits, .tolerance = o.tolerance}};
  if (const size_t trials = open.study.trials().size(); trials > 0)
    in.env.log(LogLevel::kInfo, fmt::format("going on after {} trials", trials));
  if (const auto before = notes::kEnding.in(open.study)) open.ending.wall_seconds = before->wall_seconds;
  if (in.fewer_samples && !notes::kFewerSamples.is_in(open.study))
    notes::kFewerSamples.add(open.study, *in.fewer_samples);
  if (!notes::kLayers.is_in(open.study)) notes::kLayers.add(open.study, layers(in.model));
  return open;
}

}  // namespace seqto::internal
