# Build options, and the interface target with the compile options of every moh target.

option(MOH_BUILD_TESTS "Build the tests" ON)
option(MOH_TEST_EVERY_ISA "Run the tests of ops, models and golden data under each instruction set, too" OFF)
option(MOH_FAILPOINTS "Compile in the failure points that tests trigger through MOH_FAIL" ${MOH_BUILD_TESTS})
option(MOH_WERROR "Treat compiler warnings as errors (CI does)" OFF)
option(MOH_UNITY "Compile files in batches, several in one call of the compiler: scripts/ does, where all is compiled anyway" OFF)
option(MOH_PRECOMPILED "Precompile the headers of the standard library and of Catch2" ON)
set(MOH_SANITIZE "" CACHE STRING "Sanitizers to build with, as for -fsanitize= (address,undefined)")
option(MOH_FUZZ "Build the fuzz targets with libFuzzer; needs clang (scripts/fuzz.sh)" OFF)
set(MOH_CPU_KERNELS all CACHE STRING
    "CPU kernels: all (each instruction set, chosen when a program starts), avx2 (those up to AVX2, for a smaller program), native (the best of this machine alone)")
set(MOH_CUDA AUTO CACHE STRING
    "CUDA toolkit: AUTO (use it where there is a GPU, too), ON (must be there, with or without a GPU), OFF")
set(MOH_CUDNN AUTO CACHE STRING "cuDNN and its front end, with CUDA: AUTO (use them when found), ON (must be there), OFF")
set(MOH_MPI AUTO CACHE STRING "Training in several processes, by Open MPI: AUTO (where its header is found), ON (must be there), OFF")
set(MOH_PYTHON_MODULE AUTO CACHE STRING
    "The Python module: AUTO (where Python's headers and nanobind are found), ON (they must be there), OFF")
set_property(CACHE MOH_CPU_KERNELS PROPERTY STRINGS all avx2 native)
set_property(CACHE MOH_CUDA MOH_CUDNN MOH_MPI MOH_PYTHON_MODULE PROPERTY STRINGS AUTO ON OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Loops that count are in kernels (moh_cpu_kernels), which have -O3: for the rest it would add a tenth to the time of compilation.
# Flags that a user gave stay.
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()

find_program(MOH_CCACHE ccache)
mark_as_advanced(MOH_CCACHE)
if(MOH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # With a base directory, build folders share cached objects of equal options; ccache requires this sloppiness to cache
  # files that use a precompiled header. In depend mode, which it has for GCC and clang, a file that is not in the cache is not
  # preprocessed first: a fifth of the time of a small one.
  set(settings ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
               CCACHE_SLOPPINESS=pch_defines,time_macros)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${settings} CCACHE_DEPEND=1 ${MOH_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${settings} ${MOH_CCACHE})
endif()

add_library(moh_compile_options INTERFACE)
target_compile_features(moh_compile_options INTERFACE cxx_std_20)
# GCC 12 falsely reports overlapping copies inside std::string's operator+ (GCC bug 105651), and overflows where the
# standard library's headers are precompiled, as they then do not count as system headers. The preset asan, which has no
# precompiled headers, keeps the latter two warnings.
target_compile_options(moh_compile_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    $<$<CXX_COMPILER_ID:GNU>:-Wno-missing-field-initializers -Wno-restrict
      $<$<BOOL:${MOH_PRECOMPILED}>:-Wno-stringop-overflow -Wno-array-bounds>>
    $<$<BOOL:${MOH_WERROR}>:-Werror>>
  # nvcc: constexpr functions may be called in device code; warns about kernels that spill registers.
  # From version 13 on, whose drivers can unpack it, it packs device code to a fifth.
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra -Xptxas=--warn-on-spills
    $<$<VERSION_GREATER_EQUAL:$<CUDA_COMPILER_VERSION>,13>:--compress-mode=size>
    $<$<BOOL:${MOH_WERROR}>:--Werror=all-warnings>>)
if(MOH_UNITY)
  # GCC collects its garbage above 128 MB, and a batch of files takes 300 to 700: above 512 it takes 150 more and a twelfth less time.
  target_compile_options(moh_compile_options INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:--param=ggc-min-heapsize=524288>)
endif()
target_compile_definitions(moh_compile_options INTERFACE
  $<$<CONFIG:Debug>:MOH_DEBUG_CHECKS=1 _GLIBCXX_ASSERTIONS>)
if(MOH_SANITIZE)
  target_compile_options(moh_compile_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MOH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
      # With sanitizers, which block inlining, GCC 12 falsely reports members of std::function as uninitialised. Other builds tell of
      # names that hide others, which are more in the batches of tests/fuzz.
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-shadow
        # GCC's checks of each pointer before each access take a fifth of the time to compile. Null pointers end a program anyway, with
        # the address sanitizer's report; sizes of objects are known to an optimiser, and beyond them lies its forbidden memory; and
        # numbers are copied out of a file's bytes, not read in place. scripts/fuzz.sh has these checks.
        -fno-sanitize=null,alignment,object-size
        # A kernel's index is a signed number, whose overflow is a finding, and its pointers lead to accesses; a reader's may only be
        # compared with the end of its bytes.
        $<$<BOOL:$<TARGET_PROPERTY:MOH_KERNELS>>:-fno-sanitize=pointer-overflow>>>)
  target_link_options(moh_compile_options INTERFACE -fsanitize=${MOH_SANITIZE})
  target_compile_definitions(moh_compile_options INTERFACE MOH_DEBUG_CHECKS=1 MOH_SANITIZED=1)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON) # read by tests/build and by clang-tidy
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
