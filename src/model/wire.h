// Room: model. A model file's outermost levels, read without copying its weights.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seqto::internal {

// A ModelProto without the bytes of its big initializers, and where those bytes lie.
struct LightModel {
  std::string bytes;
  std::vector<std::string_view> raw_data;  // one an initializer, views of the file; null data where it was left inside
};
// Nothing where the file is not written the plain way; protobuf's own parser then has the word.
std::optional<LightModel> without_weights(std::string_view file, size_t threshold_bytes = 4096);

}  // namespace seqto::internal
