# The standard library's headers, precompiled once for all of moh, and once more with Catch2 for the test programs. They
# are a third of the processor time of a file in train/ (CONTRIBUTING.md, "Build time"). JSON, YAML and CLI11 are not among
# them: few files see those, and a precompiled header is read whole by every file. The sources still name what they
# include: tests/build compiles headers without it, and so do the presets debug and asan everything.

set(MOH_STANDARD_HEADERS
  <algorithm> <array> <cmath> <cstddef> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory> <mutex>
  <optional> <set> <span> <string> <string_view> <system_error> <type_traits> <utility> <vector>)

if(MOH_PRECOMPILED)
  # Of libraries: GCC takes a precompiled header only where the options are those that it was made with, hence OpenMP.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(moh_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(moh_precompiled PRIVATE moh_compile_options OpenMP::OpenMP_CXX Threads::Threads)
  target_precompile_headers(moh_precompiled PRIVATE ${MOH_STANDARD_HEADERS})
endif()

# moh_precompile_library(TARGET): its C++ files begin with the standard library's headers.
function(moh_precompile_library target)
  if(MOH_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM moh_precompiled)
  endif()
endfunction()

# moh_precompile_tests(TARGET): the files of a test program begin with the standard library's headers and Catch2. They
# are those of the first program that asks: position-independent code of programs and of libraries differs.
function(moh_precompile_tests target)
  get_property(first GLOBAL PROPERTY MOH_PRECOMPILED_TESTS)
  if(MOH_PRECOMPILED AND first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  elseif(MOH_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${MOH_STANDARD_HEADERS} <catch2/catch.hpp>)
    set_property(GLOBAL PROPERTY MOH_PRECOMPILED_TESTS ${target})
  endif()
endfunction()
