// Room: runner. Runs a model on a device: ONNX Runtime today, worker processes and TVM behind the same seam.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "seqto/env.h"
#include "seqto/model.h"

namespace seqto {

struct SessionOptions {
  // Whether the runtime may rewrite the graph. Calibration and error analysis run it as written, so that the
  // numbers are those of the graph that is quantized.
  enum class Optimization { kNone, kAll };
  Optimization optimization = Optimization::kAll;
};

// A loaded model. One thread at a time.
class Session {
 public:
  virtual ~Session() = default;
  // Inputs in the order of input_names(); outputs in the order of output_names(). Outputs own their memory.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs) = 0;
  virtual const std::vector<std::string>& input_names() const = 0;
  virtual const std::vector<std::string>& output_names() const = 0;
};

// A device with its runtime. Sessions may outlive nothing: destroy them before their Runner.
class Runner {
 public:
  virtual ~Runner() = default;
  // Throws Error{kInvalidInput} with the runtime's words when it does not take the model.
  virtual std::unique_ptr<Session> load(const Model& model, const SessionOptions& = {}) = 0;
  // As load(), from a file on disk, read by the runtime itself.
  virtual std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& = {}) = 0;
  virtual std::string description() const = 0;  // "onnxruntime 1.31.1 (cpu, 1 thread)"
};

struct RunnerOptions {
  int threads = 1;
  // The runtime's library; empty: $SEQTO_ORT_LIBRARY, the build's own, Python's site-packages, the system's.
  std::string library;
};
// `device`: "cpu". Throws Error{kUnavailable} when the runtime is not found or too old (>= 1.20 is needed).
std::unique_ptr<Runner> make_runner(const std::string& device, const RunnerOptions& = {}, const Env& = {});

}  // namespace seqto
