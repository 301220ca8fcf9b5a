// seqto-tvm: a compiled model on a device, here or behind a connection.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api.h"

namespace seqto::on_tvm {

// What a compiled model says of itself: the text of model.json beside model.so, written when it was compiled.
struct Description {
  struct Input {
    std::string name;
    int type = 0;  // ONNX's number
    std::vector<int64_t> dims;
    size_t bytes = 0;
  };
  std::string text;
  std::string kind;  // of the target: "llvm", "cuda" ...
  std::vector<Input> inputs;
  std::vector<std::string> outputs;
};
// Throws Error{kInvalidInput}.
Description parse_description(std::string text);

struct Output {
  DLDataType type{};
  std::vector<int64_t> dims;
  std::string bytes;
};
using Inputs = std::span<const std::span<const std::byte>>;
struct Result {
  std::vector<Output> outputs;
  std::optional<int64_t> ns;  // of the kernels alone; nothing where a link lies between
};

class Network {
 public:
  // `library` is model.so, loaded; `session_mask` is that of the connection it was loaded through, 0 without one.
  Network(const ffi::Module& library, Description description, int session_mask);

  Result run(Inputs inputs);
  // The virtual machine, whose function "invoke_stateful" runs the model on the inputs of the last run().
  const ffi::Module& machine() const { return machine_; }
  DLDevice device() const { return device_; }  // as tensors need it, with the mask of the connection

 private:
  void set(Inputs inputs);
  Output fetch(const ffi::Tensor& tensor) const;

  Description description_;
  DLDevice device_;
  bool remote_;
  ffi::Module machine_;
  std::vector<ffi::Tensor> inputs_;
  std::optional<int> arity_;  // -1: one tensor, not a tuple
};

// Nanoseconds of `repeats` runs of `machine`, by TVM's own evaluator, on the device.
std::vector<int64_t> time_on_device(const ffi::Module& machine, DLDevice device, int repeats);

// --- the same as one function on the device, one message each way for many samples

// Registers "seqto.open" (file name, model.json) -> module with "run" and "invoke_stateful". `folder` holds the files.
void register_network_functions(const std::string& folder);

// `samples` after each other; each has all inputs after each other.
std::string pack_inputs(std::span<const std::vector<std::span<const std::byte>>> samples);
// Throws Error{kUnavailable} where the bytes make no sense: what lies at the other end is not ours.
std::vector<Result> unpack_results(std::string_view bytes);

}  // namespace seqto::on_tvm
