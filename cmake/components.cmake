# What the program holds of others: `seqto --licenses`, and a bill of materials for packages.
find_program(SEQTO_PYTHON3 python3 REQUIRED)
mark_as_advanced(SEQTO_PYTHON3)
set(components "")
foreach(name archive duktape fmt nettle png protobuf turbojpeg xxhash yaml zlib)
  list(APPEND components "${name}=${SEQTO_${name}_LIBRARY}")
endforeach()
find_path(SEQTO_cli11_INCLUDE CLI/CLI.hpp)
find_path(SEQTO_json_INCLUDE nlohmann/json.hpp)
mark_as_advanced(SEQTO_cli11_INCLUDE SEQTO_json_INCLUDE)
list(APPEND components
  "cli11=${SEQTO_cli11_INCLUDE}/CLI/CLI.hpp" "nlohmann_json=${SEQTO_json_INCLUDE}/nlohmann/json.hpp"
  "spdlog=${SEQTO_spdlog_INCLUDE}/spdlog/spdlog.h" "tomlplusplus=${SEQTO_tomlplusplus_INCLUDE}/toml++/toml.h"
  "eigen=${SEQTO_eigen_INCLUDE}/Eigen/Core"
  "onnx=${SEQTO_DEPS}/onnx/LICENSE" "echarts=${SEQTO_DEPS}/echarts/LICENSE" "dagre=${SEQTO_DEPS}/dagre/LICENSE")
if(onnxruntime_library)
  list(APPEND components "onnxruntime=${SEQTO_DEPS}/onnxruntime/lib/LICENSE")
endif()
execute_process(COMMAND "${SEQTO_PYTHON3}" -B "${CMAKE_SOURCE_DIR}/tools/components.py" "${CMAKE_BINARY_DIR}/generated"
  "${PROJECT_VERSION}" ${components} COMMAND_ERROR_IS_FATAL ANY)
seqto_embed(seqto_cli licences_text "${CMAKE_BINARY_DIR}/generated/licences.txt")
