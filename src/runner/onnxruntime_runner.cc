#include "runner/onnxruntime_runner.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <onnxruntime_cxx_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>

#include "base/files.h"
#include "runner/insert_observers.h"
#include "runner/onnxruntime_observe.h"
#include "runner/onnxruntime_providers.h"
#include "runner/text/run_hints.h"
#include "seqto/error.h"

#ifndef SEQTO_DEFAULT_ORT_LIBRARY
#define SEQTO_DEFAULT_ORT_LIBRARY ""
#endif

namespace seqto::internal {
namespace {

constexpr int kOldestMinor = 20;

struct Library {
  const OrtApi* api = nullptr;
  uint32_t api_version = 0;
  std::string version, path, failure;
};

// Asks for the newest interface that both the headers and the library know; OrtApi only ever grows at its end.
Library open_library(const std::string& path) {
  Library library;
  library.path = path;
  // Version 1.31 keeps a database of its use below the user's cache folder and sends it to its makers, unless told not
  // to.
  ::setenv("ORT_DISABLE_TELEMETRY", "1", 0);
  // Never closed: ONNX Runtime's own threads and statics do not survive that.
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    library.failure = ::dlerror();
    return library;
  }
  auto get_base = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(handle, "OrtGetApiBase"));
  if (!get_base) {
    library.failure = path + " has no OrtGetApiBase";
    return library;
  }
  library.version = get_base()->GetVersionString();
  int major = 0, minor = 0;
  std::sscanf(library.version.c_str(), "%d.%d", &major, &minor);
  if (major != 1 || minor < kOldestMinor) {
    library.failure = fmt::format("{} is version {}, too old", path, library.version);
    return library;
  }
  library.api_version = static_cast<uint32_t>(std::min(minor, ORT_API_VERSION));
  library.api = get_base()->GetApi(library.api_version);
  if (!library.api) library.failure = path + " offers no usable interface";
  return library;
}

Library find_library(const RunnerOptions& options) {
  std::string failures;
  for (const std::string& path : onnxruntime_candidates(options.library, SEQTO_DEFAULT_ORT_LIBRARY)) {
    Library library = open_library(path);
    if (library.api) return library;
    failures += fmt::format("\n  {}", library.failure);
  }
  throw Error(Code::kUnavailable,
              fmt::format("[onnxruntime] no usable library found; ONNX Runtime 1.{} or newer was expected; pip install "
                          "onnxruntime, or set SEQTO_ORT_LIBRARY to its libonnxruntime.so. Tried:{}",
                          kOldestMinor, failures));
}

// Throws where the runtime says no more than that it found no memory.
void require_memory(std::string_view verb, std::string_view said) {
  if (said.find("bad_alloc") == std::string_view::npos &&
      said.find("Failed to allocate memory") == std::string_view::npos)
    return;
  throw DeviceGone(
      fmt::format("[{}] ONNX Runtime found no memory: {}; more was expected; end other programs, or take fewer "
                  "--jobs, a smaller batch or a smaller model",
                  verb, said));
}

Error runtime_error(std::string_view verb, const Ort::Exception& error) {
  require_memory(verb, error.what());
  return Error(Code::kInvalidInput, fmt::format("[{}] ONNX Runtime does not take the model: {}", verb, error.what()));
}

Error run_error(const Ort::Exception& error, std::span<const std::string> names, std::span<const Tensor> inputs) {
  require_memory("run", error.what());
  const std::string hint = run_hint(error.what(), names, inputs);
  return Error(Code::kInvalidInput,
               fmt::format("[run] {}ONNX Runtime says: {}", hint.empty() ? "" : hint + ". ", error.what()));
}

// A file without a place on disk.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("seqto", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }
  std::string bytes() const { return read_file(path()); }

 private:
  int descriptor_;
};

// What an observed session keeps beside it.
struct Observation {
  Observer* observer = nullptr;
  std::unique_ptr<ObserveDomain> domain;
  std::vector<ObservedInput> inputs;
  std::vector<ObservedConstant> constants;
};

class OnnxruntimeSession : public Session {
 public:
  OnnxruntimeSession(Ort::Session session, std::vector<Initializer> weights, Observation observation = {})
      : weights_(std::move(weights)), observation_(std::move(observation)), session_(std::move(session)) {
    Ort::AllocatorWithDefaultOptions allocator;
    for (size_t i = 0; i < session_.GetInputCount(); ++i)
      input_names_.push_back(session_.GetInputNameAllocated(i, allocator).get());
    for (size_t i = 0; i < session_.GetOutputCount(); ++i)
      output_names_.push_back(session_.GetOutputNameAllocated(i, allocator).get());
    for (const auto& n : input_names_) input_pointers_.push_back(n.c_str());
    for (const auto& n : output_names_) output_pointers_.push_back(n.c_str());
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    if (inputs.size() != input_names_.size())
      throw Error(Code::kInvalidInput,
                  fmt::format("[run] {} inputs found; the model has {}", inputs.size(), input_names_.size()));
    for (auto [tensor, input] : observation_.inputs)
      observation_.observer->observe(tensor, inputs[input].type(), inputs[input].bytes());
    for (const auto& [tensor, value] : observation_.constants)
      observation_.observer->observe(tensor, value.type(), value.bytes());
    try {
      std::vector<Ort::Value> values;
      for (const Tensor& t : inputs) values.push_back(to_value(t));
      RunUnderWay under_way(*this);
      auto results = session_.Run(run_options_, input_pointers_.data(), values.data(), values.size(),
                                  output_pointers_.data(), output_pointers_.size());
      std::vector<Tensor> outputs;
      for (auto& r : results) outputs.push_back(owned(to_tensor(std::move(r)), inputs));
      return outputs;
    } catch (const Ort::Exception& error) {
      if (cancelled_) throw Error(Code::kInterrupted, "[run] cancelled");
      throw run_error(error, input_names_, inputs);
    }
  }
  void cancel() noexcept override {
    std::lock_guard lock(mutex_);
    if (!running_) return;
    cancelled_ = true;
    run_options_.SetTerminate();
  }
  const std::vector<std::string>& input_names() const override { return input_names_; }
  const std::vector<std::string>& output_names() const override { return output_names_; }

  // Ends what EnableProfiling() began; the file with the profile.
  std::string end_profiling() {
    Ort::AllocatorWithDefaultOptions allocator;
    return session_.EndProfilingAllocated(allocator).get();
  }

  static Ort::Value to_value(const Tensor& t) {
    static const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    auto bytes = t.bytes();
    return Ort::Value::CreateTensor(memory, const_cast<std::byte*>(bytes.data()), bytes.size(), t.dims().data(),
                                    t.dims().size(), static_cast<ONNXTensorElementDataType>(t.type()));
  }

 private:
  // While it lives, cancel() reaches the run.
  struct RunUnderWay {
    explicit RunUnderWay(OnnxruntimeSession& s) : session(s) {
      std::lock_guard lock(session.mutex_);
      if (session.cancelled_.exchange(false)) session.run_options_.UnsetTerminate();
      session.running_ = true;
    }
    ~RunUnderWay() {
      std::lock_guard lock(session.mutex_);
      session.running_ = false;
    }
    OnnxruntimeSession& session;
  };

  static Tensor to_tensor(Ort::Value value) {
    if (!value.IsTensor()) return {};
    auto info = value.GetTensorTypeAndShapeInfo();
    auto type = static_cast<DataType>(info.GetElementType());
    if (type == DataType::kString) return {};
    size_t size = (info.GetElementCount() * element_bits(type) + 7) / 8;
    auto owner = std::make_shared<Ort::Value>(std::move(value));
    const void* data = owner->GetTensorRawData();
    return Tensor(type, info.GetShape(), owner, {static_cast<const std::byte*>(data), size});
  }

  // An input that is an output comes back where it lies: its memory is the caller's.
  static Tensor owned(Tensor output, std::span<const Tensor> inputs) {
    const auto bytes = output.bytes();
    const auto lies_there = [&](const Tensor& input) { return !bytes.empty() && bytes.data() == input.bytes().data(); };
    if (std::ranges::none_of(inputs, lies_there)) return output;
    return Tensor::from(output.type(), output.dims(), std::vector<std::byte>(bytes.begin(), bytes.end()));
  }

  std::vector<Initializer> weights_;  // the session reads them in place
  Observation observation_;
  Ort::Session session_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<const char*> input_pointers_, output_pointers_;
  Ort::RunOptions run_options_;
  std::mutex mutex_;
  bool running_ = false;
  std::atomic<bool> cancelled_ = false;  // the run under way, or the last one
};

class OnnxruntimeRunner : public Runner {
 public:
  // `provider`: null for the CPU.
  OnnxruntimeRunner(const Library& library, const Provider* provider, const RunnerOptions& options)
      : env_(ORT_LOGGING_LEVEL_ERROR, "seqto"),
        version_(library.version),
        api_version_(library.api_version),
        threads_(options.threads),
        provider_(provider),
        provider_options_(options.provider_options) {
    if (provider_) require_convolution();
  }

  std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override {
    return load_with(model, session_options(options), {});
  }

  std::unique_ptr<Session> load_observed(const Model& model, std::span<const std::string> tensors, Observer& observer,
                                         const SessionOptions& options) override {
    if (options.optimization == SessionOptions::Optimization::kAll)
      if (auto session = load_optimized(model, tensors, observer, options)) return session;
    return load_instrumented(insert_observers(model, tensors), observer, options);
  }

  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    try {
      return std::make_unique<OnnxruntimeSession>(Ort::Session(env_, path.c_str(), session_options(options)),
                                                  std::vector<Initializer>{});
    } catch (const Ort::Exception& error) {
      throw runtime_error("load", error);
    }
  }

  Model optimized(const Model& model) override {
    constexpr int64_t kMore = 1 << 20;  // bytes: a head that shares its table with the embedding becomes one of its own
    Model result = optimized_by(model, {.threads = 1});
    if (serialized_size(result) <= serialized_size(model) + kMore) return result;
    return optimized_by(model, {.fold_constants = false, .threads = 1});
  }
  std::vector<NodePlacement> placement(const Model& model, std::span<const Tensor> inputs, int runs) override {
    TemporaryFolder folder;
    Ort::SessionOptions o = session_options({});
    o.EnableProfiling((folder.path / "profile").c_str());
    auto session = load_with(model, std::move(o), {});
    for (int i = 0; i < runs; ++i) session->run(inputs);
    return placements_from_profile(read_file(session->end_profiling()));
  }

  int threads() const override { return threads_; }

  std::string description() const override {
    return fmt::format("onnxruntime {} ({}, {} thread{})", version_, provider_ ? provider_->device : "cpu", threads_,
                       threads_ == 1 ? "" : "s");
  }

 private:
  Model optimized_by(const Model& model, const SessionOptions& options) {
    TemporaryFolder folder;
    Ort::SessionOptions o = host_options(options);
    o.SetGraphOptimizationLevel(ORT_ENABLE_BASIC);
    o.SetOptimizedModelFilePath((folder.path / "optimized.onnx").c_str());
    // The weights go to a file of their own: above 2 GB they have to, and mapped they cost no memory.
    o.AddConfigEntry("session.optimized_model_external_initializers_file_name", "weights");
    o.AddConfigEntry("session.optimized_model_external_initializers_min_size_in_bytes", "1024");
    o.AddConfigEntry("session.disable_prepacking", "1");
    load_with(model, std::move(o), {});
    return load_model(folder.path / "optimized.onnx");
  }

  // The runtime gives nodes that a provider does not take to the CPU without a word. One that does not even take this
  // is not in use at all.
  void require_convolution() const {
    Model model = parse_model_text(R"(
      <ir_version: 8, opset_import: ["" : 13]>
      convolution (float[1,3,8,8] x) => (float[1,4,8,8] y) <float[4,3,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12}> {
        c = Conv(x, w)
        y = Relu(c)
      })");
    Ort::SessionOptions o = session_options({});
    o.AddConfigEntry("session.disable_cpu_ep_fallback", "1");
    std::string bytes = serialize(model);
    try {
      Ort::Session session(env_, bytes.data(), bytes.size(), o);
    } catch (const Ort::Exception& error) {
      throw Error(
          Code::kUnavailable,
          fmt::format("[runner] {} leaves a convolution to the CPU: {}; a device that runs models was expected; "
                      "check its drivers and provider options",
                      provider_->name, error.what()));
    }
  }

  std::unique_ptr<Session> load_instrumented(Instrumented instrumented, Observer& observer,
                                             const SessionOptions& options) {
    Observation observation{&observer, std::make_unique<ObserveDomain>(observer, api_version_),
                            std::move(instrumented.inputs), std::move(instrumented.constants)};
    Ort::SessionOptions o = host_options(options);
    o.Add(observation.domain->get());
    // The runtime looks for the domain and adds it in two steps: sessions that are loaded at once both add it.
    static std::mutex adding;
    std::lock_guard lock(adding);
    return load_with(instrumented.model, std::move(o), std::move(observation));
  }

  // Observers put into the graph that the runtime made of the model; nothing where that cannot be done.
  std::unique_ptr<Session> load_optimized(const Model& model, std::span<const std::string> tensors, Observer& observer,
                                          const SessionOptions& options) {
    constexpr int64_t kMostBytes = int64_t{1} << 30;  // the optimised graph is written down with its weights
    if (serialized_size(model) > kMostBytes) return nullptr;
    Preparation preparation = prepare_for_optimizing(model, tensors);
    auto optimized = optimize(preparation.model);
    if (!optimized) return nullptr;
    // Where the runtime made none, it may not even have the operators: on 64-bit ARM.
    const int64_t block = has_blocks(*optimized) ? channel_block() : 1;
    auto instrumented = observe_optimized(*optimized, model, preparation, tensors, block);
    if (!instrumented) return nullptr;
    try {
      SessionOptions as_made = options;
      as_made.optimization = SessionOptions::Optimization::kNone;
      return load_instrumented(std::move(*instrumented), observer, as_made);
    } catch (const Error&) {
      return nullptr;
    }
  }

  // The model as the runtime rewrites it for this machine.
  std::optional<Model> optimize(const Model& model) const {
    MemoryFile file;
    try {
      Ort::SessionOptions o = host_options({});
      o.SetOptimizedModelFilePath(file.path().c_str());
      o.SetLogSeverityLevel(ORT_LOGGING_LEVEL_ERROR);  // it warns that the graph is for this machine only
      std::string bytes = serialize(model);
      Ort::Session session(env_, bytes.data(), bytes.size(), o);
      return parse_model(file.bytes());
    } catch (const Ort::Exception&) {
      return std::nullopt;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // How many channels lie together in the runtime's blocked layout on this machine: asked by reordering 16 channels
  // of two pixels.
  int64_t channel_block() {
    Model model;
    model.ir_version = 8;
    model.opsets = {{"", 17}, {kBlockedDomain, 1}};
    std::vector<Dimension> dims{{1, ""}, {16, ""}, {1, ""}, {2, ""}};
    model.graph.name = "block";
    model.graph.inputs = {{"x", DataType::kFloat, dims, ""}};
    model.graph.outputs = {{"y", DataType::kFloat, std::nullopt, ""}};
    model.graph.nodes = {{"reorder", "ReorderInput", kBlockedDomain, {"x"}, {"y"}, {}, {}}};
    std::vector<float> values(32);
    for (size_t channel = 0; channel < 16; ++channel)
      values[2 * channel] = values[2 * channel + 1] = static_cast<float>(channel);
    Tensor input = float_tensor({1, 16, 1, 2}, std::move(values));
    auto session = load_with(model, host_options({SessionOptions::Optimization::kNone}), {});
    auto result = session->run(std::span(&input, 1))[0];
    return result.values<float>()[8] == 8.0f ? 16 : 8;
  }

  std::unique_ptr<OnnxruntimeSession> load_with(const Model& model, Ort::SessionOptions o, Observation observation) {
    DetachedModel detached = serialize_detached(model);
    try {
      std::vector<std::string> names;
      std::vector<Ort::Value> values;
      for (const Initializer& w : detached.weights) {
        names.push_back(w.name);
        values.push_back(OnnxruntimeSession::to_value(w.tensor));
      }
      if (!names.empty()) o.AddExternalInitializers(names, values);
      Ort::Session session(env_, detached.proto.data(), detached.proto.size(), o);
      return std::make_unique<OnnxruntimeSession>(std::move(session), std::move(detached.weights),
                                                  std::move(observation));
    } catch (const Ort::Exception& error) {
      throw runtime_error("load", error);
    }
  }

  Ort::SessionOptions session_options(const SessionOptions& options) const {
    Ort::SessionOptions o = host_options(options);
    if (provider_) append_provider(o, *provider_, provider_options_);
    return o;
  }

  // On the CPU whatever the device is: what is observed or rewritten does not depend on it.
  Ort::SessionOptions host_options(const SessionOptions& options) const {
    Ort::SessionOptions o;
    o.SetIntraOpNumThreads(options.threads > 0 ? options.threads : threads_);
    o.SetInterOpNumThreads(1);
    o.SetDeterministicCompute(true);
    o.SetGraphOptimizationLevel(options.optimization == SessionOptions::Optimization::kNone ? ORT_DISABLE_ALL
                                                                                            : ORT_ENABLE_ALL);
    if (!options.prepack) o.AddConfigEntry("session.disable_prepacking", "1");
    if (!options.fold_constants) o.AddConfigEntry("optimization.disable_specified_optimizers", "ConstantFolding");
    return o;
  }

  Ort::Env env_;
  std::string version_;
  uint32_t api_version_;
  int threads_;
  const Provider* provider_;
  std::map<std::string, std::string> provider_options_;
};

}  // namespace

std::string onnxruntime_file(const RunnerOptions& options) {
  for (const std::string& path : onnxruntime_candidates(options.library, SEQTO_DEFAULT_ORT_LIBRARY))
    if (std::filesystem::is_regular_file(path)) return std::filesystem::canonical(path);
  return "";
}

std::unique_ptr<Runner> make_onnxruntime_runner(const std::string& device, const RunnerOptions& options,
                                                const Env& env) {
  Library library = find_library(options);
  env.log(LogLevel::kDebug, fmt::format("onnxruntime {} from {}", library.version, library.path));
  Ort::InitApi(library.api);
  return std::make_unique<OnnxruntimeRunner>(library, find_provider(device), options);
}

}  // namespace seqto::internal
