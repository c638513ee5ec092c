# moh_packaged: the program with its libraries linked in, which needs the C library alone (scripts/package.sh). Its objects are
# those of all builds, so it is one more link; `all` leaves it out.

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

# All of moh with its libraries, to link a program with, or a module that loads into others. moh_train by its file, as the target
# names shared libraries. Without the sections that nothing uses: some of libstdc++ call functions of the newest glibc.
add_library(moh_train_packaged INTERFACE)
add_dependencies(moh_train_packaged moh_train)
target_link_libraries(moh_train_packaged INTERFACE $<TARGET_FILE:moh_train> moh_models moh_ops moh_autograd moh_core
  moh_fmt_static ${archives} ${CMAKE_DL_LIBS})
foreach(kind INCLUDE_DIRECTORIES COMPILE_DEFINITIONS)
  set_property(TARGET moh_train_packaged PROPERTY INTERFACE_${kind} $<TARGET_PROPERTY:moh_train,INTERFACE_${kind}>)
endforeach()
target_link_options(moh_train_packaged INTERFACE -static-libstdc++ -static-libgcc -Wl,--gc-sections)

add_executable(moh_packaged EXCLUDE_FROM_ALL train/main.cpp)
target_link_libraries(moh_packaged PRIVATE moh_train_packaged moh_commit)
set_target_properties(moh_packaged PROPERTIES OUTPUT_NAME moh RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/packaged)
