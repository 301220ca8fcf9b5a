// Room: runner. What the devices of ONNX Runtime are called.
#pragma once

#include <span>
#include <string_view>

namespace seqto::internal {

struct Provider {
  std::string_view device;      // as --device takes it
  std::string_view name;        // as the runtime calls it, in profiles too
  std::string_view short_name;  // for the runtime's generic call; empty: it has a call of its own
  std::string_view package;     // where to get a library that has it
};
std::span<const Provider> providers();
// Null for "cpu" and for what is no provider.
const Provider* find_provider(std::string_view device);

}  // namespace seqto::internal
