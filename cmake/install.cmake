# What `cmake --install` and CPack (`./dev package`) leave: the command, libseqto.so with its headers for
# find_package(seqto), ONNX Runtime in lib/seqto, the sample. The tree may be moved: nothing in it names a folder.
#
# Components: runtime and development (the two Debian packages), and bundle (the libraries of the system that the
# archive brings along). docs/reference/install.md tells how they are used.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(private_dir lib/seqto)  # beside bin, whatever the distribution calls its library folder
set(SEQTO_SONAME "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")

# One shared library: what it is made of stays inside. Its objects are those of the rooms.
get_property(rooms GLOBAL PROPERTY seqto_rooms)
set(objects $<TARGET_OBJECTS:seqto_echarts>)
foreach(room IN LISTS rooms)
  list(APPEND objects $<TARGET_OBJECTS:seqto_${room}>)
endforeach()
add_library(seqto_library SHARED ${objects})
target_link_libraries(seqto_library PRIVATE seqto_all)
target_include_directories(seqto_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(seqto_library INTERFACE cxx_std_20)
target_link_options(seqto_library PRIVATE "LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/libseqto.map")
set_target_properties(seqto_library PROPERTIES
  OUTPUT_NAME seqto EXPORT_NAME seqto VERSION "${PROJECT_VERSION}" SOVERSION "${SEQTO_SONAME}" LINKER_LANGUAGE CXX
  LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/libseqto.map" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib"
  SEQTO_SHARED_DEPENDENCIES ON)

# RPATH and not RUNPATH: it holds for the libraries of our libraries too, which know nothing of this tree.
foreach(target seqto seqto_library)
  target_link_options(${target} PRIVATE "LINKER:--disable-new-dtags")
endforeach()
set_target_properties(seqto PROPERTIES INSTALL_RPATH "$ORIGIN/../${private_dir}")
set_target_properties(seqto_library PROPERTIES INSTALL_RPATH "$ORIGIN/seqto:$ORIGIN/../seqto")

install(TARGETS seqto RUNTIME_DEPENDENCY_SET seqto_needs RUNTIME DESTINATION bin COMPONENT runtime)
install(TARGETS seqto_library EXPORT seqto-targets RUNTIME_DEPENDENCY_SET seqto_needs
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/seqto" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/seqto")
install(EXPORT seqto-targets NAMESPACE seqto:: FILE seqto-config.cmake DESTINATION "${config_dir}" COMPONENT development)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/seqto-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/seqto-config-version.cmake" DESTINATION "${config_dir}" COMPONENT development)

if(onnxruntime_library)
  install(FILES ${onnxruntime_library} DESTINATION "${private_dir}" COMPONENT runtime)
  install(FILES "${SEQTO_DEPS}/onnxruntime/lib/LICENSE" DESTINATION share/doc/seqto/licences RENAME onnxruntime
    COMPONENT runtime)
endif()
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" DESTINATION share/doc/seqto RENAME copyright COMPONENT runtime)
install(FILES "${CMAKE_BINARY_DIR}/generated/sbom.cdx.json" DESTINATION share/doc/seqto COMPONENT runtime)
install(FILES "${CMAKE_SOURCE_DIR}/README.md" "${CMAKE_SOURCE_DIR}/CHANGELOG.md" DESTINATION share/doc/seqto
  COMPONENT runtime)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/docs" DESTINATION share/doc/seqto COMPONENT runtime FILES_MATCHING PATTERN "*.md")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/bench/results" DESTINATION share/doc/seqto/bench COMPONENT runtime
  FILES_MATCHING PATTERN "*.md")
install(FILES "${CMAKE_SOURCE_DIR}/examples/digits/model.onnx" "${CMAKE_SOURCE_DIR}/examples/digits/digits.npz"
  "${CMAKE_SOURCE_DIR}/examples/digits/README.md" DESTINATION share/seqto/digits COMPONENT runtime)

# The program itself tells of its words and flags. One target for all that an installation needs.
set(texts "${CMAKE_BINARY_DIR}/generated")
add_custom_command(OUTPUT "${texts}/seqto.1" "${texts}/seqto.bash" "${texts}/_seqto" "${texts}/seqto.fish"
  COMMAND seqto man > "${texts}/seqto.1"
  COMMAND seqto completion bash > "${texts}/seqto.bash"
  COMMAND seqto completion zsh > "${texts}/_seqto"
  COMMAND seqto completion fish > "${texts}/seqto.fish"
  DEPENDS seqto VERBATIM)
add_custom_target(seqto_install_files ALL DEPENDS "${texts}/seqto.1" seqto_library)
install(FILES "${texts}/seqto.1" DESTINATION share/man/man1 COMPONENT runtime)
install(FILES "${texts}/seqto.bash" DESTINATION share/bash-completion/completions RENAME seqto COMPONENT runtime)
install(FILES "${texts}/_seqto" DESTINATION share/zsh/vendor-completions COMPONENT runtime)
install(FILES "${texts}/seqto.fish" DESTINATION share/fish/vendor_completions.d COMPONENT runtime)

# Not what belongs to the C library and the compiler: those must be the system's.
install(RUNTIME_DEPENDENCY_SET seqto_needs
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so"
  DIRECTORIES "${CMAKE_BINARY_DIR}/lib"
  LIBRARY DESTINATION "${private_dir}" COMPONENT bundle EXCLUDE_FROM_ALL)

# Licences of what is linked into the program, and of what the archive brings along.
get_cmake_property(variables CACHE_VARIABLES)
list(FILTER variables INCLUDE REGEX "^SEQTO_.*_LIBRARY$")
set(linked "")
foreach(header CLI/CLI.hpp nlohmann/json.hpp spdlog/spdlog.h toml++/toml.h eigen3/Eigen/Core)
  list(APPEND linked "/usr/include/${header}")
endforeach()
foreach(variable IN LISTS variables)
  list(APPEND linked "${${variable}}")
endforeach()
set(copy_licences "include(\"${CMAKE_SOURCE_DIR}/cmake/install_licences.cmake\")")
install(CODE "set(libraries \"${linked}\")\n${copy_licences}" COMPONENT runtime)
install(CODE "set(libraries \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${private_dir}/*.so*\")\n${copy_licences}"
  COMPONENT bundle EXCLUDE_FROM_ALL)
install(FILES "${SEQTO_DEPS}/onnx/LICENSE" DESTINATION share/doc/seqto/licences RENAME onnx COMPONENT runtime)
install(FILES "${SEQTO_DEPS}/echarts/LICENSE" DESTINATION share/doc/seqto/licences RENAME echarts COMPONENT runtime)
install(FILES "${SEQTO_DEPS}/dagre/LICENSE" DESTINATION share/doc/seqto/licences RENAME dagre COMPONENT runtime)

# --- packages ---------------------------------------------------------------------------------------------------------

set(CPACK_PACKAGE_NAME seqto)
set(CPACK_PACKAGE_VENDOR seqto)
set(CPACK_PACKAGE_CONTACT "The seqto project <seqto@seqto.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "finds which layers of an ONNX model to quantize, and how")
set(CPACK_PACKAGE_FILE_NAME "seqto-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_GENERATOR "TGZ;DEB")
set(CPACK_STRIP_FILES ON)
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_SOURCE_DIR}/cmake/cpack_generator.cmake")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME seqto)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libcurl4, libsndfile1")  # loaded when they are needed
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libseqto-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "seqto (= ${PROJECT_VERSION})")  # ONNX Runtime is there
include(CPack)
