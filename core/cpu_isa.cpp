#include "core/cpu_isa.h"

#include <cstdlib>
#include <string>

#include "core/error.h"

namespace moh {

namespace {

#if defined(__x86_64__)
bool processor_has(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && processor_has(CpuIsa::kAvx2);
    case CpuIsa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    case CpuIsa::kBaseline:
      return true;
  }
  return false;
}
#else
bool processor_has(CpuIsa isa) {
  return isa == CpuIsa::kBaseline;
}
#endif

CpuIsa best_isa() {
  for (CpuIsa isa : {CpuIsa::kAvx512, CpuIsa::kAvx2}) {
    if (processor_has(isa)) return isa;
  }
  return CpuIsa::kBaseline;
}

CpuIsa isa_from_environment() {
  const char* text = std::getenv("MOH_CPU_ISA");
  if (text == nullptr || *text == '\0') return best_isa();
  for (CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (cpu_isa_name(isa) != text) continue;
    if (processor_has(isa)) return isa;
    throw ValueError(error_message(
        "MOH_CPU_ISA", "",
        "an instruction set of this processor (the best is " + std::string(cpu_isa_name(best_isa())) + ")",
        text));
  }
  throw ValueError(error_message("MOH_CPU_ISA", "", "baseline, avx2 or avx512", text));
}

CpuIsa& current_isa() {
  static CpuIsa isa = isa_from_environment();
  return isa;
}

}  // namespace

CpuIsa cpu_isa() {
  return current_isa();
}

bool cpu_has_isa(CpuIsa isa) {
  return processor_has(isa);
}

std::string_view cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return "baseline";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
  }
  fail_check(__FILE__, __LINE__, "isa", "unknown CpuIsa value");
}

CpuIsaScope::CpuIsaScope(CpuIsa isa) : previous_(current_isa()) {
  if (!processor_has(isa)) {
    throw ValueError(
        error_message("CpuIsaScope", "isa", "an instruction set of this processor", cpu_isa_name(isa)));
  }
  current_isa() = isa;
}

CpuIsaScope::~CpuIsaScope() {
  current_isa() = previous_;
}

}  // namespace moh
