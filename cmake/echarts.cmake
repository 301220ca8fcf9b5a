# Texts inside the program: ECharts, and what the HTML report is made of. Their functions are declared in
# src/visualizer/echarts_js.h and src/visualizer/assets.h.
add_library(seqto_echarts STATIC)

# seqto_embed(NAME FILE): std::string_view seqto::internal::NAME(), the bytes of FILE.
function(seqto_embed name file)
  set(source "${CMAKE_BINARY_DIR}/generated/${name}.cc")
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT [[
// Made by cmake/echarts.cmake: the text of a file as it is.
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
  target_sources(seqto_echarts PRIVATE "${source}")
endfunction()

seqto_embed(echarts_js "${SEQTO_DEPS}/echarts/echarts.min.js")
seqto_embed(plots_js "${CMAKE_SOURCE_DIR}/src/visualizer/plots.js")
seqto_embed(page_js "${CMAKE_SOURCE_DIR}/src/visualizer/page.js")
seqto_embed(report_css "${CMAKE_SOURCE_DIR}/src/visualizer/report.css")
seqto_link_room(visualizer PRIVATE seqto_echarts)
