# Run at installation with `libraries`, paths or patterns of libraries and headers: copies the licences of the distribution's packages that
# they come from to `licences` below the prefix. Where there is no dpkg there is nothing to copy.
if(NOT licences)
  set(licences share/doc/seqto/licences)
endif()
find_program(dpkg_query dpkg-query)
if(NOT dpkg_query)
  return()
endif()
file(GLOB files ${libraries})
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  execute_process(COMMAND "${dpkg_query}" -S "${file}" OUTPUT_VARIABLE owner ERROR_QUIET)
  if(NOT owner)  # a copy of the distribution's file
    execute_process(COMMAND "${dpkg_query}" -S "*/${name}" OUTPUT_VARIABLE owner ERROR_QUIET)
  endif()
  if(owner MATCHES "^([^:,]+)[:,]" AND EXISTS "/usr/share/doc/${CMAKE_MATCH_1}/copyright")
    configure_file("/usr/share/doc/${CMAKE_MATCH_1}/copyright"
      "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${licences}/${CMAKE_MATCH_1}" COPYONLY)
  endif()
endforeach()
