// Room: quantization/read. The tables of targets/*.toml, which the program holds.
#pragma once

#include <span>
#include <string_view>

namespace seqto::internal {

struct TargetFile {
  std::string_view name;  // of the file, without .toml
  std::string_view (*text)();
};
// By name. Made by cmake/targets.cmake.
std::span<const TargetFile> target_files();

}  // namespace seqto::internal
