# What a release compiles at -O1: flags, reports, files of JSON. They take a moment of a run, and at -O1 a file that uses
# JSON compiles a fifth faster. Numbers are the same: no option of ours lets the compiler change arithmetic. Most of the
# reading and writing of JSON is compiled in src/base/json_templates.cc, at -O3.
function(seqto_compile_quickly)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O1>")
endfunction()

seqto_compile_quickly(${cli_sources})
get_target_property(sources seqto_visualizer SOURCES)
seqto_compile_quickly(${sources})
foreach(room metrics orchestrator)
  get_target_property(sources seqto_${room} SOURCES)
  # These reckon for every candidate.
  list(FILTER sources EXCLUDE REGEX "/(latency_model|target_metrics|task_metrics)\\.cc$")
  foreach(source IN LISTS sources)
    file(STRINGS "${source}" json REGEX "^#include \"base/json.h\"")
    if(json)
      seqto_compile_quickly("${source}")
    endif()
  endforeach()
endforeach()
