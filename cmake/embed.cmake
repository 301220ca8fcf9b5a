# Files inside the program.
# seqto_embed(TARGET NAME FILE): TARGET gets std::string_view seqto::internal::NAME(), the bytes of FILE.
function(seqto_embed target name file)
  set(source "${CMAKE_BINARY_DIR}/generated/${name}.cc")
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT [[
// Made by cmake/embed.cmake: the text of a file as it is.
#include <cstddef>
#include <string_view>

__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    "seqto_@name@_begin:\n"
    ".incbin \"@file@\"\n"
    "seqto_@name@_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
__attribute__((visibility("hidden"))) extern const char seqto_@name@_begin[];
__attribute__((visibility("hidden"))) extern const char seqto_@name@_end[];
}

namespace seqto::internal {

std::string_view @name@();
std::string_view @name@() {
  return {seqto_@name@_begin, static_cast<std::size_t>(seqto_@name@_end - seqto_@name@_begin)};
}

}  // namespace seqto::internal
]])
  set_source_files_properties("${source}" PROPERTIES OBJECT_DEPENDS "${file}")
  target_sources(${target} PRIVATE "${source}")
endfunction()
