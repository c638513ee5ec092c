# moh_packaged: the program with its libraries linked in, which needs the C library alone (scripts/package.sh). Its objects are
# those of moh, so it is one more link; `all` leaves it out.

set(archives "")
set(missing "")
foreach(library yaml-cpp png jpeg pcre2-8 utf8proc xxhash zstd z)
  find_library(MOH_ARCHIVE_${library} NAMES lib${library}.a)
  mark_as_advanced(MOH_ARCHIVE_${library})
  if(MOH_ARCHIVE_${library})
    list(APPEND archives ${MOH_ARCHIVE_${library}})
  else()
    list(APPEND missing lib${library}.a)
  endif()
endforeach()

if(missing)
  list(JOIN missing " " missing)
  add_custom_target(moh_packaged VERBATIM
    COMMAND ${CMAKE_COMMAND} -E echo "error: moh_packaged: expected static archives, found none of ${missing}"
    COMMAND ${CMAKE_COMMAND} -E echo "Debian has them in the -dev packages that scripts/setup.sh --list prints; configure again after installing them"
    COMMAND ${CMAKE_COMMAND} -E false)
  return()
endif()

add_library(moh_fmt_static STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/fmt_static.cpp)
target_link_libraries(moh_fmt_static PRIVATE moh_compile_options)

# moh_train by its file, as the target names shared libraries.
add_executable(moh_packaged EXCLUDE_FROM_ALL $<TARGET_OBJECTS:moh>)
add_dependencies(moh_packaged moh_train)
target_link_libraries(moh_packaged PRIVATE $<TARGET_FILE:moh_train> moh_commit moh_models moh_ops moh_autograd moh_core
  moh_fmt_static ${archives} ${CMAKE_DL_LIBS})
# Without the sections that nothing uses: some of libstdc++ call functions of the newest glibc.
target_link_options(moh_packaged PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
set_target_properties(moh_packaged PROPERTIES OUTPUT_NAME moh LINKER_LANGUAGE CXX
                                              RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/packaged)
