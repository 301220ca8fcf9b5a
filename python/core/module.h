// The parts of the module seqto._core, each bound by a function, and what calls have in common.
#pragma once

#include <memory>
#include <string>

#include "options.h"
#include "own_parts.h"
#include "seqto/runner.h"

namespace seqto::python {

void bind_model(nb::module_& m);       // Model, Layer, Plan, Ranges
void bind_quantize(nb::module_& m);    // quantize, calibrate, analyze, preprocess, Quantizer
void bind_study(nb::module_& m);       // tune, report, validate, bench
void bind_strategy(nb::module_& m);    // SearchSpace and Trial, what own strategies see
void bind_oracle(nb::module_& m);      // what seqto.onnxruntime.quantization calls
void bind_loss_debug(nb::module_& m);  // and its qdq_loss_debug

// Types in signatures.
inline constexpr char kModel[] = "seqto._types.ModelLike";
inline constexpr char kData[] = "seqto._types.DataLike";
inline constexpr char kProgressType[] = "seqto._types.ProgressLike | None";

// Runtime and worker of the installed packages, where neither a keyword nor the environment names others.
void find_runtime(RunnerOptions& options);

// What the keywords of data and device say.
struct Workbench {
  DatasetOptions dataset;
  RunnerOptions runner;
  GivenDevice device;

  void take(Keywords& keywords);
  void take_device(Keywords& keywords);  // without those of data
  static void tell(Signature& signature);
  // To be called by a verb, without the interpreter.
  std::unique_ptr<Runner> open(const Model& model, const Env& env) const;
  // The same, in a process of its own where ONNX Runtime may end the one that it is in: 1.31 does so on some graphs of
  // float16.
  std::unique_ptr<Runner> open_safe(const Model& model, const Env& env) const;
};

}  // namespace seqto::python
