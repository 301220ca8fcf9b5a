// Room: orchestrator/tune. What a study is made of: options, model, samples and the runners of its devices.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/written_errors.h"
#include "orchestrator/cached/cached_decoder.h"
#include "orchestrator/study/notes.h"
#include "orchestrator/tune/samples.h"
#include "orchestrator/tune/time_budget.h"

namespace seqto::internal {

struct Device {
  std::string name;
  std::unique_ptr<Runner> runner;
};

// Nothing of it changes once it is open.
struct Inputs {
  TuneOptions options;  // nothing is left to the strategy; what was excluded is options.quantize.exclude, by layer
  const Env& env;
  bool chose_objectives = false;  // who asked for the study did
  Model model{};                  // in the form that is quantized
  std::vector<int64_t> opsets{};  // after each step of its preparation
  std::vector<std::filesystem::path> external_files{};
  std::string model_sha256{};        // of the file
  int64_t model_bytes = 0;           // with its external files
  std::unique_ptr<Runner> runner{};  // the CPU, in this process
  std::vector<Device> devices{};     // where candidates are measured
  Samples samples{};
  double sample_seconds = 0;                    // of the float model on the first device, reading and all
  std::optional<SampleCounts> fewer_samples{};  // that the study takes for want of time or memory
  // Of an encoder and its decoder, "wer=FILE": of the texts that they write, not of answers to given tokens. Of every
  // reported point where an objective or a limit goes by them, else of the selected one.
  WrittenErrors text_errors{};
  bool judged_by_texts = false;
  std::vector<CachedDecoder> cached_decoders{};  // of the same
  std::optional<Target> target{};
  std::vector<std::string> notes{};  // for the report
  std::string size_note{};           // the one of them that Summary::size_note is
};

// Of a model that others are compared with: why it is no file for the target. Empty: it is one, or there is no target.
std::string no_candidate(const Inputs& inputs, const Plan& plan, const Model& model);

std::vector<Tensor> first_inputs(const Inputs& inputs);  // of the samples to evaluate on

// The study in the folder, that a run with these options goes on with. Nothing of one that was killed before it noted
// anything: it is begun anew.
std::optional<Study> begun_study(const TuneOptions& options);

// What is done in the folder of the study.
enum class Access { kWrite, kRead };

// Throws Error as the verbs that it calls. Tells `time` what a sample takes. `env` outlives it.
Inputs open_inputs(const TuneOptions& asked, TimeBudget& time, const Env& env, Access access = Access::kWrite);

}  // namespace seqto::internal
