// Room: runner/text. What a failed run has to do with what the model was given.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "seqto/model.h"

namespace seqto::internal {

// Where ONNX Runtime's message is about a token that is in no table, or a text that is longer than one: what was found
// and expected. Empty: nothing is known.
std::string run_hint(std::string_view said, std::span<const std::string> names, std::span<const Tensor> inputs);

}  // namespace seqto::internal
