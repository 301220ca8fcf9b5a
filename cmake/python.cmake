# The Python extension seqto._core: the rooms, the command and the bindings in one shared object, which shows nothing but
# PyInit__core. `./dev wheel` packs it (pyproject.toml); a build with tests makes it where nanobind is, in python/seqto of
# the build folder, beside copies of the package's own files.
if(SEQTO_PYTHON STREQUAL "OFF" OR SEQTO_SANITIZE OR NOT SEQTO_ONNXRUNTIME)
  return()
endif()
if(NOT SKBUILD AND EXISTS "${SEQTO_DEPS}/venv/bin/python")
  set(Python_EXECUTABLE "${SEQTO_DEPS}/venv/bin/python")
endif()
if(CMAKE_CROSSCOMPILING)  # beside the library of the other machine's Python
  file(GLOB Python_INCLUDE_DIR "${SEQTO_DEPS}/python/usr/include/python3.*")
endif()
# The second component where the stable interface serves all Pythons from 3.12 on.
find_package(Python 3.10 COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
if(Python_Interpreter_FOUND AND NOT nanobind_ROOT)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(nanobind CONFIG QUIET)
if(NOT nanobind_FOUND OR NOT Python_Development.Module_FOUND)
  if(NOT SEQTO_PYTHON STREQUAL "AUTO")
    message(FATAL_ERROR "The Python extension needs nanobind and Python's headers; run ./dev setup wheel, or set SEQTO_PYTHON=OFF")
  endif()
  message(STATUS "No nanobind or no Python headers: the Python extension is left out")
  return()
endif()

# The package's own files, beside the extension.
file(GLOB_RECURSE package RELATIVE "${CMAKE_SOURCE_DIR}/python" CONFIGURE_DEPENDS
  "${CMAKE_SOURCE_DIR}/python/seqto/*.py" "${CMAKE_SOURCE_DIR}/python/seqto/py.typed")
foreach(file IN LISTS package)
  configure_file("${CMAKE_SOURCE_DIR}/python/${file}" "${CMAKE_BINARY_DIR}/python/${file}" COPYONLY)
endforeach()

set(python_fields "${CMAKE_BINARY_DIR}/generated/python/option_fields.h")
file(GLOB public_headers CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/include/seqto/*.h")
add_custom_command(OUTPUT "${python_fields}"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_BINARY_DIR}/generated/python"
  COMMAND "${Python_EXECUTABLE}" -B "${CMAKE_SOURCE_DIR}/python/generate_options.py" "${CMAKE_SOURCE_DIR}/include/seqto" "${python_fields}"
  DEPENDS "${CMAKE_SOURCE_DIR}/python/generate_options.py" ${public_headers} VERBATIM)

file(GLOB python_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/python/core/*.cc")
set(objects $<TARGET_OBJECTS:seqto_cli> $<TARGET_OBJECTS:seqto_echarts>)
get_property(rooms GLOBAL PROPERTY seqto_rooms)
foreach(room IN LISTS rooms)
  list(APPEND objects $<TARGET_OBJECTS:seqto_${room}>)
endforeach()
nanobind_add_module(seqto_python STABLE_ABI NB_STATIC ${python_sources} "${python_fields}")
target_sources(seqto_python PRIVATE ${objects})
target_include_directories(seqto_python PRIVATE "${CMAKE_SOURCE_DIR}/cli" "${CMAKE_BINARY_DIR}/generated/python")
target_link_libraries(seqto_python PRIVATE seqto_all CLI11::CLI11)
target_compile_options(seqto_python PRIVATE -Wno-overloaded-virtual)
target_link_options(seqto_python PRIVATE LINKER:--exclude-libs,ALL LINKER:--gc-sections
  "LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/python.map")
set_target_properties(seqto_python PROPERTIES OUTPUT_NAME _core SEQTO_SHARED_DEPENDENCIES ON
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/python/seqto")

# Signatures and documentation for editors and type checkers.
set(stub "${CMAKE_BINARY_DIR}/python/seqto/_core.pyi")
if(CMAKE_CROSSCOMPILING)  # read off the extension of a build for this machine
  add_custom_target(seqto_python_stub COMMAND "${CMAKE_COMMAND}" -E copy "${SEQTO_PYTHON_STUB}" "${stub}" VERBATIM)
else()
  nanobind_add_stub(seqto_python_stub MODULE seqto._core OUTPUT "${stub}" PYTHON_PATH "${CMAKE_BINARY_DIR}/python" DEPENDS seqto_python)
endif()

if(SKBUILD)
  target_link_options(seqto_python PRIVATE -static-libstdc++ -s)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|aarch64)$")
    # Of an older glibc these are libraries of their own; a newer one has them as empty ones.
    target_sources(seqto_python PRIVATE "${CMAKE_SOURCE_DIR}/python/old_glibc.c")
    set_source_files_properties("${CMAKE_SOURCE_DIR}/python/old_glibc.c" PROPERTIES COMPILE_OPTIONS "-fno-builtin;-O1")
    target_link_options(seqto_python PRIVATE LINKER:--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 LINKER:--as-needed)
  endif()
  install(TARGETS seqto_python LIBRARY DESTINATION seqto COMPONENT python)
  install(FILES "${stub}" DESTINATION seqto COMPONENT python)
  get_cmake_property(variables CACHE_VARIABLES)
  list(FILTER variables INCLUDE REGEX "^SEQTO_.*_LIBRARY$")
  set(linked /usr/include/CLI/CLI.hpp /usr/include/nlohmann/json.hpp /usr/include/spdlog/spdlog.h /usr/include/toml++/toml.h
    /usr/include/eigen3/Eigen/Core /usr/include/duktape.h /usr/include/fmt/format.h)
  foreach(variable IN LISTS variables)
    list(APPEND linked "${${variable}}")
  endforeach()
  install(CODE "set(libraries \"${linked}\")\nset(licences seqto/licences)\ninclude(\"${CMAKE_SOURCE_DIR}/cmake/install_licences.cmake\")"
    COMPONENT python)
  foreach(name onnx echarts dagre)
    install(FILES "${SEQTO_DEPS}/${name}/LICENSE" DESTINATION seqto/licences RENAME ${name} COMPONENT python)
  endforeach()
endif()
