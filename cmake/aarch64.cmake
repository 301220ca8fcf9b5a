# A toolchain file: 64-bit ARM Linux with the distribution's cross compiler, against the libraries that `tools/setup.sh
# wheel-aarch64` unpacks (tools/setup_wheel.sh).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(arm "${CMAKE_CURRENT_LIST_DIR}/../.deps/aarch64")
get_filename_component(arm "${arm}" ABSOLUTE)
set(CMAKE_SYSROOT "${arm}/root")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH "${arm}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
