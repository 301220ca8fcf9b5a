# ECharts inside the program: src/visualizer/echarts_js.h declares the function that is made here.
set(echarts_js "${SEQTO_DEPS}/echarts/echarts.min.js")
set(echarts_source "${CMAKE_BINARY_DIR}/generated/echarts_js.cc")
file(CONFIGURE OUTPUT "${echarts_source}" @ONLY CONTENT [[
// Made by cmake/echarts.cmake: the text of ECharts (Apache-2.0) as it was published.
#include <cstddef>
#include <string_view>

__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    "seqto_echarts_begin:\n"
    ".incbin \"@echarts_js@\"\n"
    "seqto_echarts_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
__attribute__((visibility("hidden"))) extern const char seqto_echarts_begin[];
__attribute__((visibility("hidden"))) extern const char seqto_echarts_end[];
}

namespace seqto::internal {

std::string_view echarts_js();
std::string_view echarts_js() {
  return {seqto_echarts_begin, static_cast<std::size_t>(seqto_echarts_end - seqto_echarts_begin)};
}

}  // namespace seqto::internal
]])
set_source_files_properties("${echarts_source}" PROPERTIES OBJECT_DEPENDS "${echarts_js}")
add_library(seqto_echarts STATIC "${echarts_source}")
seqto_link_room(visualizer PRIVATE seqto_echarts)
