// A word's result as JSON on stdout.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace seqto::cli {

// Paths and texts of a model may be no UTF-8: U+FFFD is written for what is not.
template <class Json>
void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace seqto::cli
