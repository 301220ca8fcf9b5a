// Room: runner/worker. What a worker and the process that drives it say to each other;
// docs/reference/worker_protocol.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "base/json.h"

#include "runner/worker/blobs.h"
#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto::internal {

inline constexpr int kWorkerProtocol = 1;
inline constexpr size_t kInlineBytes = 1024;  // tensors up to this size lie in the message

// Gives the name of a blob that holds the tensor's bytes.
using PutBlob = std::function<std::string(const Tensor&)>;

nlohmann::json tensor_to_json(const Tensor& tensor, const PutBlob& put);
// Throws Error{kInvalidInput} where a field is missing or the bytes are not as many as type and dims say.
Tensor tensor_from_json(const nlohmann::json& message, const GetBlob& get);
nlohmann::json tensors_to_json(std::span<const Tensor> tensors, const PutBlob& put);
std::vector<Tensor> tensors_from_json(const nlohmann::json& message, const GetBlob& get);

// Big weights are blobs of their own, so that models share them.
nlohmann::json model_to_json(const Model& model, const PutBlob& put);
Model model_from_json(const nlohmann::json& message, const GetBlob& get);

nlohmann::json placements_to_json(std::span<const NodePlacement> placements);
std::vector<NodePlacement> placements_from_json(const nlohmann::json& message);

std::string_view to_string(SessionOptions::Optimization optimization);  // "none", "all"
SessionOptions::Optimization parse_optimization(const std::string& word);

// The code of an error that no model is to blame for: DeviceGone.
inline constexpr std::string_view kDeviceGone = "device_gone";
nlohmann::json error_to_json(Code code, std::string_view message);
Error error_from_json(const nlohmann::json& error);

// The names of all blobs in a message, each once.
std::vector<std::string> blob_names(const nlohmann::json& message);
// Over a link a blob is such a line, then its bytes, in front of the message that names it.
struct BlobHeader {
  std::string name;
  size_t bytes = 0;
};
std::string to_line(const BlobHeader& header);
// Nothing where the message is no such line. Throws Error{kInvalidInput} where the name is none.
std::optional<BlobHeader> blob_header(const nlohmann::json& message);

// The message's line, with its end.
std::string to_line(const nlohmann::json& message);

// A field that has to be there. Throws Error{kInvalidInput} naming it.
template <class T>
T field(const nlohmann::json& message, const char* name) {
  try {
    return message.at(name).get<T>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(Code::kInvalidInput, std::string("[worker] field '") + name + "' is missing or of another type (" +
                                         error.what() + "); docs/reference/worker_protocol.md lists the fields");
  }
}
template <class T>
T field_or(const nlohmann::json& message, const char* name, T otherwise) {
  return message.contains(name) ? field<T>(message, name) : std::move(otherwise);
}

}  // namespace seqto::internal
