// Room: runner. ONNX Runtime's execution providers: the devices that the library at hand can use beside the CPU.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <map>
#include <string>
#include <vector>

#include "runner/providers.h"
#include "seqto/runner.h"

namespace seqto::internal {

// Puts the provider first; the CPU's stays behind it for the nodes that it does not take. Throws Error{kUnavailable}
// with the runtime's words where it cannot be had, or does not know an option.
void append_provider(Ort::SessionOptions& session, const Provider& provider,
                     const std::map<std::string, std::string>& options);

// Which provider ran which node, from the profile that ONNX Runtime wrote: in order of execution, each node once.
std::vector<NodePlacement> placements_from_profile(const std::string& json_text);

}  // namespace seqto::internal
