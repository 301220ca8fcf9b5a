# Flags for all code of the project, carried by the target seqto_options.
add_library(seqto_options INTERFACE)

# The same bits on every machine: no fused multiply-add behind our back, and never -ffast-math.
target_compile_options(seqto_options INTERFACE -ffp-contract=off)
target_compile_options(seqto_options INTERFACE -Wall -Wextra)
if(SEQTO_WARNINGS_AS_ERRORS)
  target_compile_options(seqto_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC asks for an explicit value of every field even where designated initialisers leave defaults on purpose.
  # GCC 12 takes std::sort of a short array, and adding short strings, for overruns.
  target_compile_options(seqto_options INTERFACE -Wno-missing-field-initializers -Wno-array-bounds -Wno-stringop-overread)
endif()

if(SEQTO_SANITIZE)
  add_compile_definitions(SEQTO_SANITIZED)
  add_compile_options(-fsanitize=${SEQTO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SEQTO_SANITIZE})
  # GCC's manual: -fsanitize makes this warning see what is not there (GCC 12 in std::regex).
  target_compile_options(seqto_options INTERFACE -Wno-maybe-uninitialized)
endif()
if(SEQTO_FUZZ)
  # libFuzzer learns from the branches that an input takes. Warnings are GCC's matter: Clang has others.
  add_compile_options(-fsanitize=fuzzer-no-link "-fsanitize-ignorelist=${CMAKE_SOURCE_DIR}/cmake/fuzz_ignored.txt"
    -w)
endif()

# Vector kernels are chosen at run time; each set has a file and flags of its own (see CMakeLists.txt).
set(SEQTO_X86 OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(SEQTO_X86 ON)
endif()

find_program(SEQTO_CCACHE ccache)
if(SEQTO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${SEQTO_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SEQTO_CCACHE}")
endif()

foreach(linker mold lld)
  find_program(SEQTO_LINKER_${linker} NAMES ${linker} ld.${linker})
  if(SEQTO_LINKER_${linker} AND NOT (linker STREQUAL "mold" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
                                     CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.1))
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()
