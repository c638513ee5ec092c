#include "core/cpu_isa.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string>

#include "core/compiled_isas.h"
#include "core/error.h"
#include "core/processor_isa.h"

namespace moh {

namespace {

#define MOH_LIST(Isa) CpuIsa::k##Isa,
constexpr CpuIsa kCompiled[] = {MOH_COMPILED_ISAS(MOH_LIST) MOH_COMPILED_MATRIX_ISAS(MOH_LIST)
                                    MOH_COMPILED_GEMM_ISAS(MOH_LIST)};
#undef MOH_LIST

bool is_compiled(CpuIsa isa) {
  return std::ranges::find(kCompiled, isa) != std::end(kCompiled);
}

std::string compiled_names() {
  std::string names;
  for (const CpuIsa isa : kCompiled) names.append(names.empty() ? "" : ", ").append(cpu_isa_name(isa));
  return names;
}

/// Throws ValueError unless kernels of `isa` are there and can run; `where` is what asks for them.
void require_isa(const char* where, CpuIsa isa) {
  const std::string name(cpu_isa_name(isa));
  if (!processor_has(isa)) {
    const std::string best(cpu_isa_name(best_isa_of_processor()));
    throw ValueError(
        error_message(where, "", "an instruction set of this processor (the best is " + best + ")", name));
  }
  if (!cpu_has_isa(isa)) {
    throw ValueError(error_message(where, "", "an instruction set of this build (" + compiled_names() + ")",
                                   name, "configure with -DMOH_CPU_KERNELS=all"));
  }
}

CpuIsa best_isa() {
  for (std::size_t i = std::size(kCompiled); i-- > 0;) {
    if (processor_has(kCompiled[i]) && processor_gains(kCompiled[i])) return kCompiled[i];
  }
  throw ValueError(error_message("CPU kernels", "", "a processor with " + compiled_names(), "another",
                                 "build on this machine, or configure with -DMOH_CPU_KERNELS=all"));
}

CpuIsa isa_from_environment() {
  const char* text = std::getenv("MOH_CPU_ISA");
  if (text == nullptr || *text == '\0') return best_isa();
  std::string known;
  for (const CpuIsa isa : kCpuIsas) {
    if (isa == CpuIsa::kAmxPlain && !is_compiled(isa)) continue;
    known.append(known.empty() ? "" : ", ").append(cpu_isa_name(isa));
    if (cpu_isa_name(isa) != text) continue;
    require_isa("MOH_CPU_ISA", isa);
    return isa;
  }
  throw ValueError(error_message("MOH_CPU_ISA", "", "one of " + known, text));
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
  return is_compiled(isa) && processor_has(isa) && processor_has(base_isa(isa));
}

CpuIsa base_isa(CpuIsa isa) {
  if (isa == CpuIsa::kAmxPlain) return kCompiled[0];
  return isa == CpuIsa::kAvx512Bf16 || isa == CpuIsa::kAmx ? CpuIsa::kAvx512 : isa;
}

std::string_view cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return "baseline";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx512Bf16:
      return "avx512_bf16";
    case CpuIsa::kAmx:
      return "amx";
    case CpuIsa::kAmxPlain:
      return "amx_plain";
  }
  fail_check(__FILE__, __LINE__, "isa", "unknown CpuIsa value");
}

CpuIsaScope::CpuIsaScope(CpuIsa isa) : previous_(current_isa()) {
  require_isa("CpuIsaScope", isa);
  current_isa() = isa;
}

CpuIsaScope::~CpuIsaScope() {
  current_isa() = previous_;
}

}  // namespace moh
