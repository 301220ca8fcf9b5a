// Room: runner. What runs models: in this process, in workers, on devices; recurrent states fed back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/env.h"
#include "seqto/error.h"
#include "seqto/model.h"

namespace seqto {

// --- Runs a model on a device: ONNX Runtime, in this process or in workers

// A device behind a link is away and stays away, or finds no memory or no room. Nothing is known of the candidate that
// it was to run, so this passes through where failing candidates become trials; the study can go on later.
class DeviceGone : public Error {
 public:
  explicit DeviceGone(const std::string& message) : Error(Code::kUnavailable, message) {}
};

struct SessionOptions {
  // Whether the runtime may rewrite the graph. Calibration and error analysis run it as written, so that the
  // numbers are of the graph that is quantized.
  enum class Optimization { kNone, kAll };
  Optimization optimization = Optimization::kAll;
  // Large models in little memory. Sessions in workers do as they like. Whether the runtime may keep weights a second
  // time, as its kernels like them best (runs take some percent less), and whether it may compute from constants when
  // it loads, as float weights of stored codes.
  bool prepack = true;
  bool fold_constants = true;
  // Threads of the runtime; 0: the runner's. Kernels share sums out among them, so the last bits depend on the number.
  // What ranges, weights and rankings are made of runs on 1: plans and files are the same on any number. Sessions in
  // workers, and of other runtimes, have the runner's.
  int threads = 0;
};

struct TimedOutputs {
  std::vector<Tensor> outputs;
  int64_t ns = 0;
};

// Where a node of the graph that the runtime made of a model is computed.
struct NodePlacement {
  std::string node, op_type;  // a node that several were fused into has a name of the runtime's own
  std::string provider;       // "CPUExecutionProvider"
  int64_t ns = 0;             // of a run: the median of all but the first; 0 where the runtime does not tell
};

// Of a process, with the runtime and all that it loaded; 0 where the system does not tell.
struct ProcessMemory {
  int64_t resident_bytes = 0;  // now
  int64_t peak_bytes = 0;      // the most that ever was
};

// A loaded model. One thread at a time.
class Session {
 public:
  virtual ~Session() = default;
  // Inputs in the order of input_names(); outputs in the order of output_names(). Outputs own their memory.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs) = 0;
  // As run(), and how long it took, measured as by time().
  virtual TimedOutputs run_timed(std::span<const Tensor> inputs);
  // As run_timed() on each of `samples`. They travel together where the runtime is not in this process: one message
  // each way, however many they are.
  virtual std::vector<TimedOutputs> run_many(std::span<const std::vector<Tensor>> samples);
  // Nanoseconds of each of `repeats` runs of the same inputs, one after the other, as near to the device as the runtime
  // can measure. A link, and copies of inputs and outputs, do not count where that can be told apart.
  virtual std::vector<int64_t> time(std::span<const Tensor> inputs, int repeats);
  // From another thread: a run() that is under way ends soon with Error{kInterrupted}; nothing happens when there is
  // none, or when the runtime cannot be stopped.
  virtual void cancel() noexcept {}
  virtual const std::vector<std::string>& input_names() const = 0;
  virtual const std::vector<std::string>& output_names() const = 0;
};

// What the model answers to a sample, which errors of the run name.
std::vector<Tensor> run_sample(Session& session, const Sample& sample);

// Values of a tensor in front of a Relu or Clip, which are clipped next: a second tensor.
struct ClippedValues {
  size_t tensor = 0, clipped_tensor = 0;
  std::span<const float> values;
  float lowest = 0, highest = 0;  // the bounds; may be infinite
};

// Is shown tensors where they lie, while a session runs.
class Observer {
 public:
  virtual ~Observer() = default;
  // `tensor` counts the names given to load_observed(). The values are the runtime's own: read them before returning.
  // One tensor may come in several pieces, and its elements in another order than the model's. Called on the thread
  // that runs the session, one piece at a time. Must not throw.
  virtual void observe(size_t tensor, DataType type, std::span<const std::byte> values) = 0;
  // Two tensors at once, from a runner that computes the second right after; the same rules. Who can learn both from
  // the values of the first saves a look; by default each is shown to observe().
  virtual void observe_clipped(const ClippedValues& values);
};

// A device with its runtime. Sessions may outlive nothing: destroy them before their Runner.
class Runner {
 public:
  virtual ~Runner() = default;
  // Throws Error{kInvalidInput} with the runtime's words when it does not take the model.
  virtual std::unique_ptr<Session> load(const Model& model, const SessionOptions& = {}) = 0;
  // As load(); every run shows `tensors`, by name, to the observer, which outlives the session. Nothing is copied out
  // where the runtime can help it; a runner that cannot makes them outputs of the model.
  virtual std::unique_ptr<Session> load_observed(const Model& model, std::span<const std::string> tensors,
                                                 Observer& observer, const SessionOptions& = {});
  // As load(), from a file on disk, read by the runtime itself.
  virtual std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& = {}) = 0;
  // The model as the runtime's basic optimization leaves it: constants folded, superfluous nodes gone, normalizations
  // and additions folded into the layer before. Ops of ONNX only; equal results on every device. Weights are in unnamed
  // temporary files, mapped. Throws Error{kInvalidInput} as load().
  virtual Model optimized(const Model& model) = 0;
  // Which part of the device runs which node of the graph that the runtime made of the model: `runs` of them on
  // `inputs`. Empty where the runtime cannot tell.
  virtual std::vector<NodePlacement> placement(const Model& model, std::span<const Tensor> inputs, int runs = 1);
  // Of the process that holds the sessions: this one, or the worker.
  virtual ProcessMemory memory();
  virtual std::string description() const = 0;  // "onnxruntime 1.31.1 (cpu, 1 thread)"
  virtual int threads() const { return 1; }     // that a session may keep busy
};

struct RunnerOptions {
  int threads = 1;
  // The runtime's library; empty: $SEQTO_ORT_LIBRARY, the build's own, Python's site-packages, the system's.
  std::string library;
  // Of ONNX Runtime's execution providers, handed on as they are: {"device_id", "0"}.
  std::map<std::string, std::string> provider_options;
  // --- worker processes (docs/reference/worker_protocol.md)
  // Sessions live in child processes. A runtime that crashes, hangs or eats memory is an Error of the session; the next
  // load() finds a fresh worker.
  bool isolated = false;
  // The executable `seqto`; empty: $SEQTO_WORKER, `seqto` on PATH. The command names itself. Other machines get a copy
  // of it, with `library`, where they lack it, or of the archive $SEQTO_WORKER_PACKAGE (docs/reference/ssh.md).
  std::string worker;
  int workers = 1;                    // processes; a session is put where the fewest are
  int64_t worker_memory_bytes = 0;    // resident memory above which a worker is stopped; 0: no limit
  double load_timeout_seconds = 600;  // for load(), load_file(), optimized(); 0: no limit
  double run_timeout_seconds = 120;   // for one run; 0: no limit
  // --- TVM (docs/guide/devices.md)
  // A python that can import tvm and onnx; empty: $SEQTO_TVM_PYTHON, the build's own, python3 on PATH.
  std::string tvm_python;
  // The executable `seqto-tvm`; empty: $SEQTO_TVM_WORKER, beside this process's own executable, on PATH.
  std::string tvm_worker;
  std::vector<std::string> tvm_plugins;  // TVM runtimes to load, as libtvm_runtime_opencl.so
  double compile_timeout_seconds = 600;  // 0: no limit
  // How long a device behind a link may be away before its runs are given up.
  double reconnect_seconds = 60;
};
// `device`: "cpu", or a provider of ONNX Runtime: "cuda", "tensorrt", "openvino", "webgpu", "xnnpack", "coreml", "qnn";
// or TVM: "tvm:TARGET", "tvm+rpc:HOST:PORT:KEY:TARGET", "tvm+tracker:HOST:PORT:KEY:TARGET";
// or a worker on another machine: "ssh:[USER@]HOST[:PORT][/DEVICE]", "adb:SERIAL[/DEVICE]".
// Sets ORT_DISABLE_TELEMETRY=1 in the process's environment, unless it is set, before the runtime is loaded.
// Throws Error{kUnavailable} when the runtime is not found or too old (>= 1.20 is needed), or no worker can be started.
// Also when the provider is missing, does not start, or leaves a convolution to the CPU.
std::unique_ptr<Runner> make_runner(const std::string& device, const RunnerOptions& = {}, const Env& = {});
// Throws Error{kUnavailable} for a name that is none of these: where nothing runs, nobody else asks.
void require_device(const std::string& name);

// Loads models on a runtime, as compare_runtimes() takes it: why it refuses one, in its words; empty: it takes it.
// Nothing where the runtime is not installed, nor of "cpu", of whose files lint() knows.
std::function<std::string(const Model& model)> refusal_by(const std::string& runtime, const RunnerOptions& = {},
                                                          const Env& = {});

// What a verb looks at: samples of a data set, and what runs them. All of it outlives the call.
struct SampleRun {
  const Dataset& data;
  std::span<const int64_t> samples;
  Runner& runner;
  const Env& env = plain_env();
};

struct DeviceStatus {
  std::string device;
  bool available = false;
  std::string detail;  // the runtime's description, or what is missing and where to get it
};
// Every kind of device, tried out one after the other.
std::vector<DeviceStatus> list_devices(const RunnerOptions& = {});

// --- Recurrent models: states that go from one sample to the next

// `runner`, whose sessions carry the states of options.states; `runner` itself where there are none. `model` is the
// float model: it tells the shapes of the states. At the start they are zeros of the state input's shape (an open batch
// is 1, other open dimensions need options.dims).
//
// Each session has separate states: a quantized model drifts by its errors, as it will in use. A run goes on from the
// states of the run before when its sample is the next of the same sequence. A sample that is run again starts where it
// started; every other sample starts at zero. So the first sample of a part (calibration, evaluation) starts at zero.
// Results depend on the samples alone, not on threads or processes. Models that are loaded may have other inputs and
// outputs than `model`, but the states' among them. States that are no output (a model cut open to look inside) are
// made one and hidden. A part of a model may not compute them: `model` then runs beside it and
// gives them.
//
// Samples come from open_dataset() with the same options. run_many() runs them one after the other: each needs the
// states of the one before.
// Throws Error{kUsage} where a state names no input or output, or they differ in type.
std::unique_ptr<Runner> carry_states(std::unique_ptr<Runner> runner, const Model& model, const DatasetOptions& options);

// --- A worker: a Runner that is driven by JSON lines, docs/reference/worker_protocol.md

struct ServeOptions {
  std::string device = "cpu";                // as `hello` tells it
  std::vector<std::filesystem::path> blobs;  // folders of the blobs; outputs go to the first that has room
  // The asker is on another machine: blobs travel in the stream. Those that came are kept in the first folder, for
  // later connections too, up to so many bytes; the longest unused ones go.
  bool stream = false;
  int64_t kept_bytes = int64_t{2} << 30;
};

// Answers requests read from descriptor `in` on `out` until "shutdown" or the end of input. What computes is done one
// after the other on a thread of its own; "hello" and "cancel" are answered at once. Where nobody reads the answers any
// more, the process is ended: a run that hangs does not outlive the one who asked for it.
void serve_worker(Runner& runner, int in, int out, const ServeOptions& options);

// For a worker that has no runner: answers the first request with the reason.
void serve_refusal(const Error& reason, int in, int out);

// The executable `seqto-tvm`, whose word `serve` makes a machine a device of others. It is options.tvm_worker, else
// $SEQTO_TVM_WORKER, else the one beside this process's executable, else `seqto-tvm` on PATH.
std::string tvm_executable(const RunnerOptions& options = {});

}  // namespace seqto
