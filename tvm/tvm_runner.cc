#include "tvm_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace seqto::on_tvm {
namespace {

DataType data_type(DLDataType type) {
  static constexpr std::tuple<int, int, DataType> kTypes[] = {
      {kDLFloat, 32, DataType::kFloat}, {kDLFloat, 16, DataType::kFloat16}, {kDLFloat, 64, DataType::kDouble},
      {kDLInt, 8, DataType::kInt8},     {kDLInt, 16, DataType::kInt16},     {kDLInt, 32, DataType::kInt32},
      {kDLInt, 64, DataType::kInt64},   {kDLUInt, 8, DataType::kUint8},     {kDLUInt, 16, DataType::kUint16},
      {kDLUInt, 32, DataType::kUint32}, {kDLUInt, 64, DataType::kUint64},   {kDLBool, 8, DataType::kBool}};
  for (auto [code, bits, found] : kTypes)
    if (code == type.code && bits == type.bits && type.lanes == 1) return found;
  throw Error(Code::kInvalidInput, "[run] an output has a type that ONNX does not have");
}

std::vector<Tensor> to_tensors(std::vector<Output> outputs) {
  std::vector<Tensor> tensors;
  for (auto& output : outputs) {
    auto owner = std::make_shared<const std::string>(std::move(output.bytes));
    auto bytes = std::as_bytes(std::span(*owner));
    tensors.emplace_back(data_type(output.type), std::move(output.dims), owner, bytes);
  }
  return tensors;
}

// A loaded model; `connection` is null on this machine.
class TvmSession : public Session {
 public:
  TvmSession(const Description& description, std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)), inputs_(description.inputs), output_names_(description.outputs) {
    for (const auto& input : inputs_) input_names_.push_back(input.name);
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    return guarded([&] { return to_tensors(compute(checked(inputs)).outputs); });
  }
  TimedOutputs run_timed(std::span<const Tensor> inputs) override {
    return guarded([&] { return timed(compute(checked(inputs))); });
  }
  std::vector<TimedOutputs> run_many(std::span<const std::vector<Tensor>> samples) override {
    return guarded([&] {
      std::vector<Bytes> bytes;
      for (const auto& inputs : samples) bytes.push_back(checked(inputs));
      return compute_many(bytes);
    });
  }
  std::vector<int64_t> time(std::span<const Tensor> inputs, int repeats) override {
    return guarded([&] {
      compute(checked(inputs));
      return measure(repeats);
    });
  }
  const std::vector<std::string>& input_names() const override { return input_names_; }
  const std::vector<std::string>& output_names() const override { return output_names_; }

 protected:
  using Bytes = std::vector<std::span<const std::byte>>;
  virtual Result compute(const Bytes& inputs) = 0;
  virtual std::vector<TimedOutputs> compute_many(std::span<const Bytes> samples) {
    std::vector<TimedOutputs> results;
    for (const auto& inputs : samples) results.push_back(timed(compute(inputs)));
    return results;
  }
  TimedOutputs timed(Result result) {
    int64_t ns = result.ns ? *result.ns : measure(1).at(0);
    return {to_tensors(std::move(result.outputs)), ns};
  }
  virtual std::vector<int64_t> measure(int repeats) = 0;  // on the inputs of the last compute()

 private:
  Bytes checked(std::span<const Tensor> inputs) const {
    if (inputs.size() != inputs_.size())
      throw Error(Code::kInvalidInput,
                  fmt::format("[run] {} inputs found; the model has {}", inputs.size(), inputs_.size()));
    Bytes bytes;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (static_cast<int>(inputs[i].type()) != inputs_[i].type || inputs[i].dims() != inputs_[i].dims)
        throw Error(
            Code::kInvalidInput,
            fmt::format("[run] input '{}' is {} [{}]; the model was compiled for {} [{}], and TVM takes no other",
                        inputs_[i].name, to_string(inputs[i].type()), fmt::join(inputs[i].dims(), ","),
                        to_string(static_cast<DataType>(inputs_[i].type)), fmt::join(inputs_[i].dims, ",")));
      bytes.push_back(inputs[i].bytes());
    }
    return bytes;
  }

  template <class F>
  auto guarded(F f) -> decltype(f()) {
    return TvmRunner::guarded(connection_.get(), f);
  }

  std::shared_ptr<Connection> connection_;
  std::vector<Description::Input> inputs_;
  std::vector<std::string> input_names_, output_names_;
};

// On this machine, or call by call behind TVM's own server.
class NetworkSession : public TvmSession {
 public:
  NetworkSession(const Description& description, std::shared_ptr<Connection> connection, Network network)
      : TvmSession(description, std::move(connection)), network_(std::move(network)) {}

 private:
  Result compute(const Bytes& inputs) override { return network_.run(inputs); }
  std::vector<int64_t> measure(int repeats) override {
    return time_on_device(network_.machine(), network_.device(), repeats);
  }
  Network network_;
};

// Behind our own server: one message each way.
class ModuleSession : public TvmSession {
 public:
  ModuleSession(const Description& description, std::shared_ptr<Connection> connection, ffi::Module module)
      : TvmSession(description, connection),
        device_{static_cast<DLDeviceType>(device_of_kind(description.kind) + connection->mask()), 0},
        module_(std::move(module)),
        run_(function_of(module_, "run")) {}

 private:
  Result compute(const Bytes& inputs) override { return std::move(exchange({&inputs, 1})[0]); }
  std::vector<TimedOutputs> compute_many(std::span<const Bytes> samples) override {
    std::vector<TimedOutputs> results;
    for (auto& result : exchange(samples)) results.push_back(timed(std::move(result)));
    return results;
  }
  std::vector<int64_t> measure(int repeats) override { return time_on_device(module_, device_, repeats); }

  std::vector<Result> exchange(std::span<const Bytes> samples) {
    auto answer = run_(ffi::Bytes(pack_inputs(samples))).cast<ffi::Bytes>();
    auto results = unpack_results({answer.data(), answer.size()});
    if (results.size() != samples.size())
      throw Error(Code::kUnavailable, "[rpc] the device answered for another number of samples than it was sent");
    return results;
  }

  DLDevice device_;
  ffi::Module module_;
  ffi::Function run_;
};

std::string read_all(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (text.empty())
    throw Error(Code::kInvalidInput,
                fmt::format("[load] {} cannot be read; a folder with model.so and model.json was expected; compile the "
                            "model again",
                            path.string()));
  return text;
}

[[noreturn]] void only_compiled() {
  throw Error(Code::kInvalidInput,
              "[load] an ONNX model found; seqto-tvm runs compiled models; load_file() takes their folders");
}

}  // namespace

TvmRunner::TvmRunner(std::string kind, std::optional<Remote> remote, int threads)
    : kind_(std::move(kind)), remote_(std::move(remote)), threads_(threads) {
  DLDeviceType type = device_of_kind(kind_);
  if (!remote_) require_device(type);
  set_threads(threads);
}

std::unique_ptr<Session> TvmRunner::load(const Model&, const SessionOptions&) { only_compiled(); }
Model TvmRunner::optimized(const Model&) { only_compiled(); }

std::unique_ptr<Session> TvmRunner::load_file(const std::string& folder, const SessionOptions&) {
  std::filesystem::path path(folder);
  Description description = parse_description(read_all(path / "model.json"));
  std::string file = (path / "model.so").string();
  if (!remote_)
    return guarded(nullptr, [&] {
      Network network(ffi::Module::LoadFromFile(file), description, 0);
      return std::make_unique<NetworkSession>(description, nullptr, std::move(network));
    });
  if (!connection_ || connection_->broken()) connection_ = std::make_shared<Connection>(*remote_);
  return guarded(connection_.get(), [&]() -> std::unique_ptr<Session> {
    // The folder is named after what it was made from.
    std::string name = path.lexically_normal().filename().string() + ".so";
    if (auto module = connection_->open(name, file, description))
      return std::make_unique<ModuleSession>(description, connection_, *module);
    Network network(connection_->load(name, file), description, connection_->mask());
    return std::make_unique<NetworkSession>(description, connection_, std::move(network));
  });
}

std::string TvmRunner::description() const {
  std::string where = !remote_                    ? ""
                      : !remote_->tracker.empty() ? fmt::format(" behind the tracker {}", remote_->tracker)
                                                  : fmt::format(" at {}", remote_->server);
  return fmt::format("TVM ({}{}), quantized layers computed in float: no int8 speed-up", kind_, where);
}

}  // namespace seqto::on_tvm
