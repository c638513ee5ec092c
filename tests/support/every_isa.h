#pragma once

#include <vector>

#include "core/cpu_isa.h"
#include "tests/support/case_tags.h"

namespace moh::test {

/// The instruction sets of kernels that this build and this processor have, the least first, for cases with
/// the tag [every_isa].
inline std::vector<CpuIsa> every_isa() {
  require_tag("every_isa");
  std::vector<CpuIsa> isas;
  for (const CpuIsa isa : kCpuIsas) {
    if (cpu_has_isa(isa)) isas.push_back(isa);
  }
  return isas;
}

}  // namespace moh::test
