// Prints the tag of the best instruction set of the processor that configures the build (MohCpuIsas.cmake).
#include <cstdio>

#include "core/processor_isa.h"

int main() {
  using moh::CpuIsa;
  std::fputs(moh::processor_has(CpuIsa::kAvx512) ? "Avx512"
             : moh::processor_has(CpuIsa::kAvx2) ? "Avx2"
                                                 : "Baseline",
             stdout);
}
