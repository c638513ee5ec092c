# MOH_CPU_ISAS: the instruction sets for which the CPU kernels are compiled, as core/cpu_isa.h names their tags.
# MOH_CPU_MATRIX_ISAS: those for which kernels that multiply matrices of bfloat16 are compiled as well, and MOH_CPU_GEMM_ISAS:
# those for which the GEMM of bfloat16 alone is.

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(MOH_CPU_ISAS Baseline Avx2 Avx512)
  set(MOH_CPU_MATRIX_ISAS Avx512Bf16)
  set(MOH_CPU_GEMM_ISAS Amx)
else()
  set(MOH_CPU_ISAS Baseline)
  set(MOH_CPU_MATRIX_ISAS "")
  set(MOH_CPU_GEMM_ISAS "")
endif()

if(MOH_CPU_KERNELS STREQUAL "native")
  # Asked anew in each configuration, as a build folder may be shared by machines.
  try_run(exit_code compiled SOURCES ${CMAKE_CURRENT_LIST_DIR}/native_isa.cpp NO_CACHE
    CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR} CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
    COMPILE_OUTPUT_VARIABLE compiler_output RUN_OUTPUT_VARIABLE native)
  # The instruction set, and behind it, if it has kernels for matrices of bfloat16 alone, the one that serves for the others.
  string(REGEX REPLACE ".*;" "" base "${native}")
  if(NOT compiled OR NOT exit_code EQUAL 0 OR NOT base IN_LIST MOH_CPU_ISAS)
    message(FATAL_ERROR "MOH_CPU_KERNELS=native: expected one of ${MOH_CPU_ISAS}, found '${base}'; "
      "MOH_CPU_KERNELS=all needs no program to run here\n${compiler_output}")
  endif()
  string(REPLACE ";" "|" native "${native}")
  foreach(name ISAS MATRIX_ISAS GEMM_ISAS)
    list(FILTER MOH_CPU_${name} INCLUDE REGEX "^(${native})$")
  endforeach()
elseif(MOH_CPU_KERNELS STREQUAL "avx2")
  list(FILTER MOH_CPU_ISAS INCLUDE REGEX "^(Baseline|Avx2)$")
  set(MOH_CPU_MATRIX_ISAS "")
  set(MOH_CPU_GEMM_ISAS "")
elseif(NOT MOH_CPU_KERNELS STREQUAL "all")
  message(FATAL_ERROR "MOH_CPU_KERNELS: expected all, avx2 or native, found '${MOH_CPU_KERNELS}'")
endif()
if(MOH_BUILD_TESTS)
  list(APPEND MOH_CPU_GEMM_ISAS AmxPlain)
endif()
message(STATUS "CPU kernels: ${MOH_CPU_ISAS} ${MOH_CPU_MATRIX_ISAS} ${MOH_CPU_GEMM_ISAS}")

foreach(name ISAS MATRIX_ISAS GEMM_ISAS)
  list(TRANSFORM MOH_CPU_${name} REPLACE "(.+)" "X(\\1)" OUTPUT_VARIABLE list_of_${name})
  list(JOIN list_of_${name} " " list_of_${name})
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/core/compiled_isas.h @ONLY CONTENT [[
#pragma once

/// X(TAG) for each instruction set that the CPU kernels of this build are compiled for, the least one first.
#define MOH_COMPILED_ISAS(X) @list_of_ISAS@
/// Likewise for those for which only kernels that multiply matrices of bfloat16 are compiled, ...
#define MOH_COMPILED_MATRIX_ISAS(X) @list_of_MATRIX_ISAS@
/// ... and those for which only the GEMM of bfloat16 is.
#define MOH_COMPILED_GEMM_ISAS(X) @list_of_GEMM_ISAS@
]])
