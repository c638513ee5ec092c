# moh_packaged: the program with its libraries linked in, which needs the C library alone (scripts/package.sh). Its objects are
# those of all builds, so it is one more link; `all` leaves it out.

# Debian compiles its archives for programs, which copy the C library's `stderr` into themselves; a module cannot. So the archives
# refer to a variable of ours.
set(archives "")
set(missing "")
set(folder ${PROJECT_BINARY_DIR}/packaged/archives)
file(MAKE_DIRECTORY ${folder})
foreach(library yaml-cpp png jpeg pcre2-8 utf8proc xxhash zstd z)
  find_library(MOH_ARCHIVE_${library} NAMES lib${library}.a)
  mark_as_advanced(MOH_ARCHIVE_${library})
  if(MOH_ARCHIVE_${library})
    set(archive ${folder}/lib${library}.a)
    add_custom_command(OUTPUT ${archive} VERBATIM DEPENDS ${MOH_ARCHIVE_${library}}
      COMMAND ${CMAKE_OBJCOPY} --redefine-sym stderr=moh_stderr ${MOH_ARCHIVE_${library}} ${archive})
    list(APPEND archives ${archive})
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

add_library(moh_packaged_parts STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/packaged_parts.cpp)
target_link_libraries(moh_packaged_parts PRIVATE moh_compile_options)
add_custom_target(moh_packaged_archives DEPENDS ${archives})

# All of moh with its libraries, to link a program with, or a module that loads into others. moh_train by its file, as the target
# names shared libraries. Without the sections that nothing uses: some of libstdc++ call functions of the newest glibc.
add_library(moh_train_packaged INTERFACE)
add_dependencies(moh_train_packaged moh_train moh_packaged_archives)
target_link_libraries(moh_train_packaged INTERFACE $<TARGET_FILE:moh_train> moh_models moh_ops moh_autograd moh_core
  ${archives} moh_packaged_parts ${CMAKE_DL_LIBS})
foreach(kind INCLUDE_DIRECTORIES COMPILE_DEFINITIONS)
  set_property(TARGET moh_train_packaged PROPERTY INTERFACE_${kind} $<TARGET_PROPERTY:moh_train,INTERFACE_${kind}>)
endforeach()
target_link_options(moh_train_packaged INTERFACE -static-libstdc++ -static-libgcc -Wl,--gc-sections)

add_executable(moh_packaged EXCLUDE_FROM_ALL train/main.cpp)
target_link_libraries(moh_packaged PRIVATE moh_train_packaged moh_commit)
set_target_properties(moh_packaged PROPERTIES OUTPUT_NAME moh RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/packaged)

# The extension module likewise, for a wheel: beside it are the files of its package, which replace those of scripts/python_package.
if(TARGET moh_python)
  set(package ${PROJECT_BINARY_DIR}/packaged/moh_package)
  nanobind_add_module(moh_python_packaged NB_STATIC NB_SUPPRESS_WARNINGS NOMINSIZE $<TARGET_OBJECTS:moh_train_apps_python>)
  set_target_properties(moh_python_packaged PROPERTIES OUTPUT_NAME _moh LIBRARY_OUTPUT_DIRECTORY ${package} EXCLUDE_FROM_ALL ON)
  target_link_libraries(moh_python_packaged PRIVATE moh_train_packaged)
  target_link_options(moh_python_packaged PRIVATE -Wl,--exclude-libs,ALL)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/train/apps/python/moh/*.py)
  add_custom_command(TARGET moh_python_packaged POST_BUILD COMMAND ${CMAKE_COMMAND} -E copy ${files} ${package} VERBATIM)
  add_dependencies(moh_packaged moh_python_packaged)
endif()
