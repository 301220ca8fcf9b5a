# Third-party libraries as targets seqto::<name>; tools/setup.sh brings them in.
if(NOT EXISTS "${SEQTO_DEPS}/onnx/lib/cmake/ONNX/ONNXTargets.cmake")
  message(FATAL_ERROR "libonnx is not in ${SEQTO_DEPS}; run ./dev setup first")
endif()

# seqto_library(NAME HEADER FILE...): target seqto::NAME for the first library found, the static one by preference. A target
# with the property SEQTO_SHARED_DEPENDENCIES gets the shared one where the static one cannot go into a shared library.
include(CheckCSourceCompiles)
if(SKBUILD)
  # A wheel brings nothing along: what the distribution has no static library of that fits is built by the set-up.
  if(NOT EXISTS "${SEQTO_DEPS}/pic/lib/libprotobuf.a")
    message(FATAL_ERROR "The static libraries of a wheel are not in ${SEQTO_DEPS}/pic; run ./dev wheel, or ./dev setup wheel first")
  endif()
  list(PREPEND CMAKE_LIBRARY_PATH "${SEQTO_DEPS}/pic/lib")
endif()
function(seqto_library name header)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .so .a)
  find_library(SEQTO_${name}_SHARED NAMES ${ARGN} REQUIRED)
  if(SEQTO_STATIC_DEPENDENCIES)
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  endif()
  find_library(SEQTO_${name}_LIBRARY NAMES ${ARGN} REQUIRED)
  find_path(SEQTO_${name}_INCLUDE NAMES ${header} REQUIRED)
  # Some distributions compile some of the static ones so that they fit all the same, as long as they show nothing.
  set(CMAKE_REQUIRED_FLAGS "-shared -fPIC")
  set(CMAKE_REQUIRED_LIBRARIES -Wl,--whole-archive "${SEQTO_${name}_LIBRARY}" -Wl,--no-whole-archive -Wl,--exclude-libs,ALL)
  set(CMAKE_REQUIRED_QUIET ON)
  check_c_source_compiles("int seqto_test;" SEQTO_${name}_FITS_SHARED)
  if(SEQTO_${name}_FITS_SHARED)
    set(SEQTO_${name}_SHARED "${SEQTO_${name}_LIBRARY}")
  endif()
  mark_as_advanced(SEQTO_${name}_LIBRARY SEQTO_${name}_SHARED SEQTO_${name}_INCLUDE)
  add_library(seqto::${name} INTERFACE IMPORTED)
  target_include_directories(seqto::${name} SYSTEM INTERFACE "${SEQTO_${name}_INCLUDE}")
  set(shared $<BOOL:$<TARGET_PROPERTY:SEQTO_SHARED_DEPENDENCIES>>)
  target_link_libraries(seqto::${name} INTERFACE "$<IF:${shared},${SEQTO_${name}_SHARED},${SEQTO_${name}_LIBRARY}>")
endfunction()

find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

seqto_library(fmt fmt/format.h fmt)
seqto_library(turbojpeg turbojpeg.h turbojpeg)
seqto_library(zlib zlib.h z)
seqto_library(png png.h png16 png)
target_link_libraries(seqto::png INTERFACE seqto::zlib m)
# Only the header: the library is loaded when the first sound file is opened.
find_path(SEQTO_sndfile_INCLUDE sndfile.h REQUIRED)
add_library(seqto::sndfile_header INTERFACE IMPORTED)
target_include_directories(seqto::sndfile_header SYSTEM INTERFACE "${SEQTO_sndfile_INCLUDE}")
target_link_libraries(seqto::sndfile_header INTERFACE ${CMAKE_DL_LIBS})
seqto_library(nettle nettle/sha2.h nettle)
seqto_library(xxhash xxhash.h xxhash)
seqto_library(duktape duktape.h duktape)
target_link_libraries(seqto::duktape INTERFACE m)

# Dense linear algebra, headers only.
find_path(SEQTO_eigen_INCLUDE Eigen/Core PATH_SUFFIXES eigen3 REQUIRED)
add_library(seqto::eigen INTERFACE IMPORTED)
target_include_directories(seqto::eigen SYSTEM INTERFACE "${SEQTO_eigen_INCLUDE}")
target_compile_definitions(seqto::eigen INTERFACE EIGEN_MPL2_ONLY)

# TOML, from its headers; they are read by one file.
find_path(SEQTO_tomlplusplus_INCLUDE toml++/toml.h REQUIRED)
add_library(seqto::tomlplusplus INTERFACE IMPORTED)
target_include_directories(seqto::tomlplusplus SYSTEM INTERFACE "${SEQTO_tomlplusplus_INCLUDE}")

seqto_library(yaml yaml.h yaml)

# Archives: of libarchive only its tar and gzip are linked. Of libcurl the headers: it is loaded when it is needed.
seqto_library(archive archive.h archive)
target_link_libraries(seqto::archive INTERFACE seqto::zlib)
find_path(SEQTO_curl_INCLUDE curl/curl.h REQUIRED)
add_library(seqto::curl_headers INTERFACE IMPORTED)
target_include_directories(seqto::curl_headers SYSTEM INTERFACE "${SEQTO_curl_INCLUDE}")
target_link_libraries(seqto::curl_headers INTERFACE ${CMAKE_DL_LIBS})

# spdlog is used from its headers, with the fmt above in place of its own copy.
find_path(SEQTO_spdlog_INCLUDE spdlog/spdlog.h REQUIRED)
add_library(seqto::spdlog INTERFACE IMPORTED)
target_include_directories(seqto::spdlog SYSTEM INTERFACE "${SEQTO_spdlog_INCLUDE}")
target_compile_definitions(seqto::spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(seqto::spdlog INTERFACE seqto::fmt Threads::Threads)

# Without a CMake package: some distributions ship no protobuf-config.cmake. The target is named in libonnx's.
seqto_library(protobuf google/protobuf/message.h protobuf)
add_library(protobuf::libprotobuf INTERFACE IMPORTED)
target_link_libraries(protobuf::libprotobuf INTERFACE seqto::protobuf Threads::Threads)
include("${SEQTO_DEPS}/onnx/lib/cmake/ONNX/ONNXTargets.cmake")
add_library(seqto::onnx INTERFACE IMPORTED)
target_link_libraries(seqto::onnx INTERFACE ONNX::onnx protobuf::libprotobuf)

# Only the headers: the library is loaded at run time, whatever release the user has. The one of the set-up is the default.
find_path(SEQTO_onnxruntime_INCLUDE onnxruntime_cxx_api.h PATHS "${SEQTO_DEPS}/onnxruntime/include" NO_DEFAULT_PATH REQUIRED)
if(NOT SKBUILD)  # a wheel takes that of the package onnxruntime
  file(GLOB onnxruntime_library "${SEQTO_DEPS}/onnxruntime/lib/libonnxruntime.so.*")
endif()
add_library(seqto::onnxruntime_headers INTERFACE IMPORTED)
target_include_directories(seqto::onnxruntime_headers SYSTEM INTERFACE "${SEQTO_onnxruntime_INCLUDE}")
target_compile_definitions(seqto::onnxruntime_headers INTERFACE
  ORT_API_MANUAL_INIT SEQTO_DEFAULT_ORT_LIBRARY="${onnxruntime_library}")
target_link_libraries(seqto::onnxruntime_headers INTERFACE ${CMAKE_DL_LIBS})
