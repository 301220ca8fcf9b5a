// Studies of a few trials with known figures, for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "orchestrator/study/summarize.h"

namespace seqto {

inline Trial trial(const std::string& id, int64_t size_bytes, double kl) {
  Trial t;
  t.id = id;
  t.measurement.emplace();
  t.measurement->size_bytes = size_bytes;
  t.measurement->losses.kl = kl;
  t.measurement->losses.top1_disagreement = kl > 0.5 ? 1 : 0;
  return t;
}

inline Trial timed_trial(const std::string& id, int64_t size_bytes, double kl, int64_t ns) {
  Trial t = trial(id, size_bytes, kl);
  t.measurement->latency = {ns, ns, ns};
  return t;
}

// Of a study with these trials.
inline Summary summary_of(const std::string& name, const std::vector<Trial>& trials,
                          internal::Ending ending = {{"kl", "size"}}) {
  namespace fs = std::filesystem;
  const fs::path dir = fs::temp_directory_path() / ("seqto_summarize_test_" + name);
  fs::remove_all(dir);
  fs::create_directories(dir);
  Study study = Study::open(dir / "study.jsonl", {});
  for (const Trial& t : trials) study.append(t);
  Summary summary = internal::summarize(study, dir, ending);
  fs::remove_all(dir);
  return summary;
}

}  // namespace seqto
