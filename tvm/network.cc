#include "network.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/json.h>

#include <chrono>
#include <cstring>

namespace seqto::on_tvm {
namespace {

constexpr int kPooled = 2;  // TVM's allocator that keeps memory for the next run

DLDataType dl_type(int onnx_type) {
  auto of = [](int code, int bits) { return DLDataType{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1}; };
  switch (onnx_type) {
    case 1:
      return of(kDLFloat, 32);
    case 2:
      return of(kDLUInt, 8);
    case 3:
      return of(kDLInt, 8);
    case 4:
      return of(kDLUInt, 16);
    case 5:
      return of(kDLInt, 16);
    case 6:
      return of(kDLInt, 32);
    case 7:
      return of(kDLInt, 64);
    case 9:
      return of(kDLBool, 8);
    case 10:
      return of(kDLFloat, 16);
    case 11:
      return of(kDLFloat, 64);
    case 12:
      return of(kDLUInt, 32);
    case 13:
      return of(kDLUInt, 64);
    default:
      throw Error(Code::kInvalidInput, "[tvm] an input has ONNX type " + std::to_string(onnx_type) +
                                           "; a float or integer of 8 bits or more was expected");
  }
}

ffi::Module load_machine(const ffi::Module& library, DLDeviceType type) {
  auto machine = function_of(library, "vm_load_executable")().cast<ffi::Module>();
  auto start = function_of(machine, "vm_initialization");
  // The last device has to be the CPU: shapes are computed there.
  if (type == kDLCPU) start(static_cast<int>(kDLCPU), 0, kPooled);
  else start(static_cast<int>(type), 0, kPooled, static_cast<int>(kDLCPU), 0, kPooled);
  return machine;
}

}  // namespace

Description parse_description(std::string text) {
  try {
    Description d;
    auto top = ffi::json::Parse(text).cast<ffi::json::Object>();
    d.kind = top.at(ffi::String("kind")).cast<std::string>();
    for (const auto& entry : top.at(ffi::String("inputs")).cast<ffi::json::Array>()) {
      auto object = entry.cast<ffi::json::Object>();
      Description::Input input;
      input.name = object.at(ffi::String("name")).cast<std::string>();
      input.type = object.at(ffi::String("type")).cast<int>();
      input.bytes = dl_type(input.type).bits / 8;
      for (const auto& dim : object.at(ffi::String("dims")).cast<ffi::json::Array>()) {
        input.dims.push_back(dim.cast<int64_t>());
        input.bytes *= static_cast<size_t>(input.dims.back());
      }
      d.inputs.push_back(std::move(input));
    }
    for (const auto& name : top.at(ffi::String("outputs")).cast<ffi::json::Array>())
      d.outputs.push_back(name.cast<std::string>());
    d.text = std::move(text);
    return d;
  } catch (const ffi::Error& error) {
    throw Error(Code::kInvalidInput, std::string("[tvm] model.json of a compiled model is not as seqto writes it: ") +
                                         error.what() + "; remove the folder and compile again");
  }
}

Network::Network(const ffi::Module& library, Description description, int session_mask)
    : description_(std::move(description)),
      device_{static_cast<DLDeviceType>(device_of_kind(description_.kind) + session_mask), 0},
      remote_(session_mask != 0),
      machine_(load_machine(library, device_of_kind(description_.kind))) {
  auto allocate = global_function("runtime.TVMTensorAllocWithScope");
  for (const auto& input : description_.inputs)
    inputs_.push_back(allocate(ffi::Shape(input.dims), dl_type(input.type), device_, nullptr).cast<ffi::Tensor>());
}

Result Network::run(Inputs inputs) {
  set(inputs);
  auto synchronize = global_function("runtime.Device_StreamSync");
  auto start = std::chrono::steady_clock::now();
  function_of(machine_, "invoke_stateful")("main");
  Result result;
  if (!remote_) {
    synchronize(device_, static_cast<int64_t>(0));
    result.ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  }
  if (!arity_) arity_ = function_of(machine_, "get_output_arity")("main").cast<int>();
  auto get = function_of(machine_, "get_output");
  if (*arity_ < 0) result.outputs.push_back(fetch(get("main").cast<ffi::Tensor>()));
  for (int i = 0; i < *arity_; ++i) result.outputs.push_back(fetch(get("main", i).cast<ffi::Tensor>()));
  return result;
}

void Network::set(Inputs inputs) {
  if (inputs.size() != inputs_.size())
    throw Error(Code::kInvalidInput, "[run] " + std::to_string(inputs.size()) + " inputs found; the model has " +
                                         std::to_string(inputs_.size()));
  auto copy = global_function("runtime.TVMTensorCopyFromBytes");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size() != description_.inputs[i].bytes)
      throw Error(Code::kInvalidInput, "[run] input '" + description_.inputs[i].name + "' has " +
                                           std::to_string(inputs[i].size()) + " bytes; the model was compiled for " +
                                           std::to_string(description_.inputs[i].bytes) +
                                           "; TVM takes one shape of each input only");
    if (!inputs[i].empty())
      copy(inputs_[i], const_cast<void*>(static_cast<const void*>(inputs[i].data())), inputs[i].size());
  }
  std::vector<ffi::AnyView> arguments{"main"};
  for (const auto& tensor : inputs_) arguments.push_back(tensor);
  ffi::Any ignored;
  function_of(machine_, "set_input").CallPacked(arguments.data(), static_cast<int32_t>(arguments.size()), &ignored);
}

Output Network::fetch(const ffi::Tensor& tensor) const {
  Output output;
  output.type = tensor.dtype();
  for (int i = 0; i < tensor.ndim(); ++i) output.dims.push_back(tensor.size(i));
  output.bytes.resize(ffi::GetDataSize(static_cast<size_t>(tensor.numel()), tensor.dtype()));
  if (!output.bytes.empty())
    global_function("runtime.TVMTensorCopyToBytes")(tensor, static_cast<void*>(output.bytes.data()),
                                                    output.bytes.size());
  return output;
}

std::vector<int64_t> time_on_device(const ffi::Module& machine, DLDevice device, int repeats) {
  constexpr int kRunsEach = 1, kMinimumMs = 0, kZeroRuns = 0, kCoolDownMs = 0, kRepeatsToCool = 1, kFlushBytes = 0;
  if (repeats < 1) return {};
  auto evaluate = global_function("runtime.RPCTimeEvaluator")(
                      ffi::Optional<ffi::Module>(machine), "invoke_stateful", static_cast<int>(device.device_type), 0,
                      kRunsEach, repeats, kMinimumMs, kZeroRuns, kCoolDownMs, kRepeatsToCool, kFlushBytes, "")
                      .cast<ffi::Function>();
  ffi::Any answer = evaluate("main");
  auto bytes = answer.cast<ffi::Bytes>();
  std::vector<int64_t> ns;
  for (size_t i = 0; i + sizeof(double) <= bytes.size(); i += sizeof(double)) {
    double seconds = 0;
    std::memcpy(&seconds, bytes.data() + i, sizeof seconds);
    ns.push_back(static_cast<int64_t>(seconds * 1e9));
  }
  return ns;
}

}  // namespace seqto::on_tvm
