// Many samples in one message: what our own server offers beyond TVM's.
#include <cstring>
#include <memory>

#include "network.h"

namespace seqto::on_tvm {
namespace {

class Packer {
 public:
  template <class T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void append(std::string_view bytes) { bytes_.append(bytes); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take(size_t size) {
    if (size > bytes_.size())
      throw Error(Code::kUnavailable, "[tvm] the device's answer is cut short; is it a seqto server of this version?");
    auto part = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return part;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

std::string pack_results(std::span<const Result> results) {
  Packer p;
  for (const auto& result : results) {
    p.number<int64_t>(result.ns.value_or(-1));
    p.number<uint32_t>(static_cast<uint32_t>(result.outputs.size()));
    for (const auto& output : result.outputs) {
      p.number<uint8_t>(output.type.code);
      p.number<uint8_t>(output.type.bits);
      p.number<uint32_t>(static_cast<uint32_t>(output.dims.size()));
      for (int64_t dim : output.dims) p.number(dim);
      p.number<uint64_t>(output.bytes.size());
      p.append(output.bytes);
    }
  }
  return p.take();
}

// A Network as a module, which is what TVM's protocol can hold on to.
class NetworkModule final : public ffi::ModuleObj {
 public:
  explicit NetworkModule(std::unique_ptr<Network> network, std::vector<size_t> sizes)
      : network_(std::move(network)), sizes_(std::move(sizes)) {}
  const char* kind() const final { return "seqto.network"; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    if (name == "run")
      return ffi::Function::FromTyped(
          [this](const ffi::Bytes& samples) { return ffi::Bytes(run({samples.data(), samples.size()})); });
    return network_->machine()->GetFunction(name);
  }

 private:
  std::string run(std::string_view samples) {
    std::vector<Result> results;
    for (Unpacker u(samples); !u.empty();) {
      std::vector<std::span<const std::byte>> inputs;
      for (size_t size : sizes_) inputs.push_back(std::as_bytes(std::span(u.take(size))));
      results.push_back(network_->run(inputs));
    }
    return pack_results(results);
  }

  std::unique_ptr<Network> network_;
  std::vector<size_t> sizes_;  // of the inputs, in bytes
};

}  // namespace

void register_network_functions(const std::string& folder) {
  auto open = [folder](const ffi::String& file, const ffi::String& description_text) {
    auto description = parse_description(description_text);
    require_device(device_of_kind(description.kind));
    std::vector<size_t> sizes;
    for (const auto& input : description.inputs) sizes.push_back(input.bytes);
    auto library = ffi::Module::LoadFromFile(folder + "/" + std::string(file));
    auto network = std::make_unique<Network>(library, std::move(description), 0);
    return ffi::Module(ffi::make_object<NetworkModule>(std::move(network), std::move(sizes)));
  };
  ffi::Function::SetGlobal("seqto.open", ffi::Function::FromTyped(open), true);
}

std::string pack_inputs(std::span<const std::vector<std::span<const std::byte>>> samples) {
  Packer p;
  for (const auto& inputs : samples)
    for (auto input : inputs) p.append({reinterpret_cast<const char*>(input.data()), input.size()});
  return p.take();
}

std::vector<Result> unpack_results(std::string_view bytes) {
  std::vector<Result> results;
  for (Unpacker u(bytes); !u.empty();) {
    Result result;
    if (auto ns = u.number<int64_t>(); ns >= 0) result.ns = ns;
    for (auto count = u.number<uint32_t>(); count > 0; --count) {
      Output output;
      output.type.code = u.number<uint8_t>();
      output.type.bits = u.number<uint8_t>();
      output.type.lanes = 1;
      for (auto rank = u.number<uint32_t>(); rank > 0; --rank) output.dims.push_back(u.number<int64_t>());
      output.bytes = u.take(u.number<uint64_t>());
      result.outputs.push_back(std::move(output));
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace seqto::on_tvm
