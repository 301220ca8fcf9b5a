// Room: orchestrator/tune. Where the time is limited: as many samples as it lasts for.
#pragma once

#include <filesystem>
#include <string>

#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/time_limit.h"
#include "seqto/dataset.h"
#include "seqto/tune.h"

namespace seqto::internal {

// The samples of a study that has begun are those that it began with.
class FewerSamples {
 public:
  // Times a sample of the float model on `place`, and tells the limit of it. `here`: of this process. Without a limit
  // no sample is run, and with recurrent states, whose sequences stay whole, none is left out. `study` is the file of
  // the study to go on with, if there is one.
  FewerSamples(const TuneOptions& options, const std::filesystem::path& study, const Dataset& data, Place& place,
               Runner& here, TimeLimit& time, Split& split);

  // For the study's notes; empty: all samples are taken.
  const std::string& note() const { return note_; }
  // For the report's.
  const std::string& text() const { return text_; }

 private:
  std::string note_, text_;
};
inline constexpr const char* kFewerSamples = "fewer samples";  // the study's note

// `count` of them, evenly spaced, since neighbours may be alike; all where that is no fewer.
std::vector<int64_t> evenly(const std::vector<int64_t>& samples, int64_t count);

}  // namespace seqto::internal
