# Libraries whose Debian packages have no CMake files of their own, as imported targets moh_NAME: checksums, regular
# expressions and normalisation forms of tokenizers, compressed text. Part of the installed package, too.
foreach(library xxhash pcre2 utf8proc zstd)
  if(TARGET moh_${library})
    continue()
  endif()
  string(TOUPPER ${library} prefix)
  set(name ${library})
  if(library STREQUAL "pcre2")
    set(name pcre2-8)
  endif()
  find_path(MOH_${prefix}_INCLUDE_DIR ${library}.h REQUIRED)
  find_library(MOH_${prefix}_LIBRARY ${name} REQUIRED)
  mark_as_advanced(MOH_${prefix}_INCLUDE_DIR MOH_${prefix}_LIBRARY)
  add_library(moh_${library} UNKNOWN IMPORTED)
  set_target_properties(moh_${library} PROPERTIES IMPORTED_LOCATION ${MOH_${prefix}_LIBRARY}
                                                  INTERFACE_INCLUDE_DIRECTORIES ${MOH_${prefix}_INCLUDE_DIR})
endforeach()
