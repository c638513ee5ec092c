#pragma once

#include "core/cpu_isa.h"

namespace moh {

/// Whether this processor, and the operating system, have the instructions that kernels of `isa` are compiled
/// to (moh_cpu_kernels in cmake/MohLayer.cmake).
inline bool processor_has(CpuIsa isa) {
#if defined(__x86_64__)
  if (isa == CpuIsa::kAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && processor_has(CpuIsa::kAvx2);
  }
  if (isa == CpuIsa::kAvx2) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
  }
#endif
  return isa == CpuIsa::kBaseline;
}

}  // namespace moh
