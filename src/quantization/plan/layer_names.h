// Room: quantization/plan. Layers that become operators on codes are called `<layer>_quant`, as onnxruntime calls them.
#pragma once

#include <string>

#include "base/text.h"

namespace seqto::internal {

constexpr char kQuantSuffix[] = "_quant";
// The float model's name of a layer.
inline std::string original_name(const std::string& name) { return without_suffix(name, kQuantSuffix); }

}  // namespace seqto::internal
