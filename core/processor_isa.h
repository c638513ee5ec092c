#pragma once

#include "core/cpu_isa.h"
#include "core/processor_amx.h"

namespace moh {

/// Whether this processor, and the operating system, have the instructions that kernels of `isa` are compiled
/// to (moh_cpu_kernels in cmake/MohLayer.cmake).
inline bool processor_has(CpuIsa isa) {
#if defined(__x86_64__)
  if (isa == CpuIsa::kAmx) return processor_has(CpuIsa::kAvx512Bf16) && processor_has_amx();
  if (isa == CpuIsa::kAvx512Bf16)
    return __builtin_cpu_supports("avx512bf16") && processor_has(CpuIsa::kAvx512);
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
  return isa == CpuIsa::kBaseline || isa == CpuIsa::kAmxPlain;
}

/// Whether kernels of `isa`, which the processor has, are known to be faster on it than those of lesser
/// instruction sets. VDPBF16PS has 2.1 to 2.4 times the multiply-adds of AVX-512 in float32 on AMD's Zen 4,
/// and half of them on Intel's processors up to Emerald Rapids, which have AMX for that: TDPBF16PS has 16
/// times those of AVX-512, on paper. AmxPlain gains nowhere.
inline bool processor_gains(CpuIsa isa) {
  if (isa == CpuIsa::kAmxPlain) return false;
#if defined(__x86_64__)
  if (isa == CpuIsa::kAvx512Bf16) return __builtin_cpu_is("amd");
#endif
  return processor_has(isa);
}

/// The best instruction set for this processor.
inline CpuIsa best_isa_of_processor() {
  CpuIsa best = CpuIsa::kBaseline;
  for (const CpuIsa isa : kCpuIsas) {
    if (processor_has(isa) && processor_gains(isa)) best = isa;
  }
  return best;
}

}  // namespace moh
