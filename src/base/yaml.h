// Room: base. The one door for YAML texts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace seqto::internal {

// The first document: its mappings as objects, its lists as arrays, all else as texts, "1" and "yes" too; null where
// there is none. `name` stands in messages. Throws Error{kInvalidInput} with the line: no YAML, more than 100 levels,
// an alias (which can stand for much more than is written), a key that is no text or is there twice.
nlohmann::json parse_yaml(std::string_view text, const std::string& name);

}  // namespace seqto::internal
