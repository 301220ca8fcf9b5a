// A point of summary.json by what people call it.
#pragma once

#include <string>

#include "base/json.h"

namespace seqto::internal {

// The point of a device's front, of "baseline" or of "fully_quantized" that is called so: "selected",
// "fully_quantized", a name, an id, or at least four digits that no other id begins with. Throws Error{kInvalidInput},
// naming those that there are.
const nlohmann::ordered_json& point_called(const nlohmann::ordered_json& front, const std::string& called,
                                           const std::string& verb);

}  // namespace seqto::internal
