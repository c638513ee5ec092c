#pragma once

#include <type_traits>

#include "core/compiled_isas.h"
#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "core/error.h"

namespace moh {

#define MOH_VISIT(Isa) \
  if (isa == CpuIsa::k##Isa) return fn.template operator()<cpu::Isa>();

/// Calls fn.template operator()<Tag>() with the tag of base_isa(cpu_isa()). Code for instruction sets without
/// kernels in this build is not made.
template <class Fn>
decltype(auto) visit_cpu_isa(Fn&& fn) {
  const CpuIsa isa = base_isa(cpu_isa());
  MOH_COMPILED_ISAS(MOH_VISIT)
  fail_check(__FILE__, __LINE__, "cpu_isa()", "an instruction set without kernels");
}

/// visit_cpu_isa() for kernels that multiply matrices of bfloat16, or round much: with the tag of cpu_isa()
/// where that has such kernels of its own, as Avx512Bf16.
template <class Fn>
decltype(auto) visit_matrix_isa(Fn&& fn) {
  [[maybe_unused]] const CpuIsa isa = cpu_isa();
  MOH_COMPILED_MATRIX_ISAS(MOH_VISIT)
  return visit_cpu_isa(fn);
}

/// visit_matrix_isa() for the GEMM of bfloat16, and its peak rate, which Amx has of its own, too.
template <class Fn>
decltype(auto) visit_gemm_isa(Fn&& fn) {
  [[maybe_unused]] const CpuIsa isa = cpu_isa();
  MOH_COMPILED_GEMM_ISAS(MOH_VISIT)
  return visit_matrix_isa(fn);
}

#undef MOH_VISIT

/// visit_matrix_isa() for elements of type T = bfloat16, visit_cpu_isa() for others.
template <class T, class Fn>
decltype(auto) visit_isa_for(Fn&& fn) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return visit_matrix_isa(fn);
  } else {
    return visit_cpu_isa(fn);
  }
}

}  // namespace moh
