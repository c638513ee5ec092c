# The standard library's headers, precompiled once for all of moh, and once more with Catch2 for the test programs. Parsing
# them is a third of the time to compile a file in train/ (CONTRIBUTING.md, "Build time"). JSON, YAML and CLI11 are not among
# them: few files include those, and every file has to load the whole precompiled header; cli/, most of whose files include
# CLI11, has precompiled headers of its own. Sources still have to include what they use: tests/build compiles the library's
# headers without precompiled ones, the preset debug everything, and asan all but kernels and tests.

set(MOH_STANDARD_HEADERS
  <algorithm> <array> <cmath> <cstddef> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory> <mutex>
  <optional> <set> <span> <string> <string_view> <system_error> <type_traits> <utility> <vector>)

if(MOH_PRECOMPILED)
  # For libraries. GCC uses a precompiled header only in files with the same options, hence those of threads.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(moh_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(moh_precompiled PRIVATE moh_compile_options Threads::Threads)
  target_precompile_headers(moh_precompiled PRIVATE ${MOH_STANDARD_HEADERS})
endif()

# moh_precompile_library(TARGET [HEADER...]): its C++ files use the precompiled headers of the standard library, and these.
function(moh_precompile_library target)
  if(MOH_PRECOMPILED AND ARGN)
    target_precompile_headers(${target} PRIVATE ${MOH_STANDARD_HEADERS} ${ARGN})
  elseif(MOH_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM moh_precompiled)
  endif()
endfunction()

# moh_precompile_kernels(TARGET ISA): kernel files use precompiled headers of the standard library and of the processor's
# instructions, which are most of what they include. The first layer's kernels of an instruction set compile them for all layers.
function(moh_precompile_kernels target isa)
  if(NOT (MOH_PRECOMPILED OR MOH_SANITIZE) OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
  endif()
  get_property(first GLOBAL PROPERTY MOH_PRECOMPILED_KERNELS_${isa})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${MOH_STANDARD_HEADERS} <immintrin.h>)
    set_property(GLOBAL PROPERTY MOH_PRECOMPILED_KERNELS_${isa} ${target})
  endif()
endfunction()

# moh_precompile_tests(TARGET [OPTIMISED]): the files of a test program use precompiled headers of the standard library and Catch2,
# which the first test program compiles and the others share; those that are optimised have their own. Those of the libraries do not
# fit: -fPIE differs from -fPIC.
function(moh_precompile_tests target)
  set(kind MOH_PRECOMPILED_TESTS)
  if("OPTIMISED" IN_LIST ARGN)
    set(kind MOH_PRECOMPILED_OPTIMISED_TESTS)
  endif()
  get_property(first GLOBAL PROPERTY ${kind})
  if(NOT MOH_PRECOMPILED AND NOT MOH_SANITIZE)
    return()
  endif()
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${MOH_STANDARD_HEADERS} <catch2/catch.hpp>)
    set_property(GLOBAL PROPERTY ${kind} ${target})
  endif()
endfunction()
