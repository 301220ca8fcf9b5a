# targets/*.toml inside the program: seqto::internal::target_files(), declared in src/quantization/read/target_files.h.
file(GLOB target_tables CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/targets/*.toml")
list(SORT target_tables)
set(declared "")
set(listed "")
foreach(table IN LISTS target_tables)
  get_filename_component(name "${table}" NAME_WLE)
  string(MAKE_C_IDENTIFIER "target_${name}" symbol)
  seqto_embed(seqto_quantization ${symbol} "${table}")
  string(APPEND declared "std::string_view ${symbol}();\n")
  string(APPEND listed "    {\"${name}\", ${symbol}},\n")
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/target_files.cc" @ONLY CONTENT [[
// Made by cmake/targets.cmake.
#include "quantization/read/target_files.h"

namespace seqto::internal {

@declared@
std::span<const TargetFile> target_files() {
  static constexpr TargetFile kFiles[] = {
@listed@  };
  return kFiles;
}

}  // namespace seqto::internal
]])
target_sources(seqto_quantization PRIVATE "${CMAKE_BINARY_DIR}/generated/target_files.cc")
