# bench/*.cc: one google-benchmark program a file, in bin/.
find_package(benchmark REQUIRED)
file(GLOB bench_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/bench/*.cc")
add_custom_target(seqto_benchmarks)
foreach(source IN LISTS bench_sources)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(${name} "${source}")
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE SEQTO_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    SEQTO_BINARY="${CMAKE_BINARY_DIR}/bin/seqto" SEQTO_CASES_DIR="${CMAKE_SOURCE_DIR}/../shared/cases")
  target_link_libraries(${name} PRIVATE seqto_all benchmark::benchmark benchmark::benchmark_main)
  add_dependencies(seqto_benchmarks ${name})
endforeach()
