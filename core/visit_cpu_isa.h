#pragma once

#include "core/compiled_isas.h"
#include "core/cpu_isa.h"
#include "core/error.h"

namespace moh {

/// Calls fn.template operator()<Tag>() with the tag of cpu_isa(). Code for instruction sets without kernels
/// in this build is not made.
template <class Fn>
decltype(auto) visit_cpu_isa(Fn&& fn) {
#define MOH_VISIT(Isa) \
  if (cpu_isa() == CpuIsa::k##Isa) return fn.template operator()<cpu::Isa>();
  MOH_COMPILED_ISAS(MOH_VISIT)
#undef MOH_VISIT
  fail_check(__FILE__, __LINE__, "cpu_isa()", "an instruction set without kernels");
}

}  // namespace moh
