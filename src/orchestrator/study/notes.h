// Room: orchestrator/study. What a study keeps beside its trials: the kinds of notes, each with its type.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "seqto/explain.h"
#include "seqto/gate.h"
#include "seqto/metrics.h"
#include "seqto/report.h"
#include "seqto/runner.h"
#include "seqto/search.h"

namespace seqto::internal {

// A kind of note: one line of study.jsonl, of which the last counts. T: one of those below.
template <class T>
struct Note {
  std::string kind;

  bool is_in(const Study& study) const { return study.noted(kind) != nullptr; }
  std::optional<T> in(const Study& study) const;
  void add(Study& study, const T& value) const;
  // What was noted; else what `make` returns, which is noted.
  template <class Make>
  T in_or(Study& study, Make make) const {
    if (std::optional<T> noted = in(study)) return *std::move(noted);
    T made = make();
    add(study, made);
    return made;
  }
};

// Of the data set's samples, so many.
struct SampleCounts {
  int64_t calibration = 0, search = 0, evaluation = 0;
  int64_t not_evaluated = 0;  // that were there to judge on, and were left out
  bool operator==(const SampleCounts&) const = default;
};

// Values on so many samples.
struct NotedValues {
  int64_t samples = 0;
  std::map<std::string, TensorValues> tensors;
};

// Layers of plans, by the plans' ids; the same layers in the same order for each of them.
using Explained = std::map<std::string, std::vector<LayerReport>>;

// What a plan takes beside the corrections that all plans share.
enum class OwnCorrection { kNone, kBiases, kCodes };

// What the last run of tune() ended with.
struct Ending {
  std::vector<std::string> objectives;
  double wall_seconds = 0;  // of all runs
  // Of the finalists, measured again side by side: by device, then by trial.
  std::map<std::string, std::map<std::string, Latency>> latencies, decode_latencies;
  std::vector<std::string> notes;
  std::vector<Limit> limits;
  double tolerance = 0.01;  // TuneOptions
  std::string task;         // the name of a Task; empty: of a study that knew of none
  std::string size_note;    // Summary's, as the next
  int64_t items_in_sample = 1;
};

namespace notes {

inline const Note<SampleCounts> kFewerSamples{"fewer samples"};  // than asked for: the time lasts for these
inline const Note<std::vector<Layer>> kLayers{"layers"};
inline const Note<bool> kNotRewritten{"not rewritten"};          // the float model: there was no time for it
inline const Note<bool> kFirstCorrections{"first corrections"};  // are in the folder, before any ranges
inline const Note<Ranges> kRanges{"ranges"}, kImprovedRanges{"improved ranges"};
inline Note<Ranges> ranges_of(const std::string& method) { return {"ranges of " + method}; }
inline Note<OwnCorrection> own_corrections_of(const std::string& id) { return {"own corrections of " + id}; }
inline const Note<std::map<std::string, std::vector<NodePlacement>>> kPlacement{"placement"};  // by device
inline const Note<bool> kSearchBegins{"search begins"};         // all that candidates are made of is there
inline const Note<std::string> kLatencyModel{"latency model"};  // as it writes itself
inline const Note<std::vector<double>> kLatencyErrors{"latency errors"};
inline const Note<WhatIf> kWhatIf{"what if"};
inline const Note<Sensitivity> kSensitivity{"sensitivity"};
inline const Note<std::vector<LocalError>> kLocalErrors{"local errors"};
inline const Note<std::vector<LayerTensors>> kWiring{"wiring"};
inline const Note<NotedValues> kValues{"values"};
inline const Note<Explained> kExplained{"explained"};
inline const Note<ChangedTokens> kChangedTokens{"changed tokens"};  // of the selected point
inline const Note<Ending> kEnding{"ending"};

}  // namespace notes
}  // namespace seqto::internal
