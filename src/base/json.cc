#include "base/json.h"

#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto::internal {

std::optional<size_t> too_deep_at(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') quoted = !quoted;
    else if (quoted) i += c == '\\';
    else if ((c == '[' || c == '{') && ++depth > kDeepestJson) return i + 1;
    else if (c == ']' || c == '}') --depth;
  }
  return {};
}

void refuse_deep_json(size_t at) {
  throw Error(Code::kInvalidInput, fmt::format("[read] {} found in a JSON text, at byte {}; at most {} were expected; "
                                               "write the file again",
                                               kTooDeepJson, at, kDeepestJson));
}

}  // namespace seqto::internal
