// Room: metrics. The same files on several runtimes: what each makes of them, and where it begins to differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/env.h"
#include "seqto/runner.h"
#include "seqto/validate.h"

namespace seqto {

// A file on a runtime, held against the same file on the first runtime, or against the first file on the same runtime.
struct RuntimeComparison {
  std::string runtime;           // as it was asked for
  std::string path;              // the file
  std::string against;           // the first runtime; empty: the first file on this runtime
  std::string refusal;           // in the runtime's words; empty: it ran
  std::optional<Parity> parity;  // where it ran
  // Of the worst sample, of the output that differs most: squared difference over squared values.
  double error = 0;
  // Where two runtimes part by more than rounding: the first node of the file in graph order, with the worst sample,
  // and the tensor that tells it. In a quantized file it is the node whose output is quantized next.
  std::optional<FirstDifference> first;
  std::string not_found;  // why `first` is not known, where it was looked for
};
bool passed(const RuntimeComparison& comparison);

struct RuntimeMatrix {
  struct Runtime {
    std::string name, description;
  };
  std::vector<Runtime> runtimes;  // the first is what the others are held against
  std::vector<std::string> paths;
  int64_t samples = 0;
  bool random_inputs = false;
  ParityOptions options;
  std::vector<RuntimeComparison> comparisons;  // by runtime, in their order
};
bool passed(const RuntimeMatrix& matrix);  // every comparison

// A file and the samples as its inputs want them.
struct RuntimeFile {
  std::string path;
  const Dataset* data = nullptr;
};

// `runtimes`: openvino, opencv, web, cpu@VERSION, openvino@VERSION, cpu:unoptimized or a device
// (docs/reference/validate.md), each in workers. One file: on each runtime against the first. Two: also the second
// against the first file on each runtime, the first included. A runtime that refuses a file, crashes on it or gives
// outputs of other shapes is a comparison with its refusal. Where a comparison fails the limits, or its error is beyond
// kBeyondRounding, the file is cut behind one node after the other, by halves, and run on both runtimes. Throws
// Error{kUnavailable} where a runtime is not there, before anything runs, and what the first runtime throws on a file.
RuntimeMatrix compare_runtimes(const std::vector<RuntimeFile>& files, const std::vector<std::string>& runtimes,
                               const ParityOptions& options = {}, const RunnerOptions& runner = {},
                               const Env& env = {});

}  // namespace seqto
