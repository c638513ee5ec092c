// Prints the tag of the best instruction set of the processor that configures the build, and behind a
// semicolon that of the one whose kernels it runs beside its own, base_isa() (MohCpuIsas.cmake).
#include <cstdio>

#include "core/processor_isa.h"

namespace {

const char* tags_of(moh::CpuIsa isa) {
  switch (isa) {
    case moh::CpuIsa::kAmx:
      return "Amx;Avx512";
    case moh::CpuIsa::kAvx512Bf16:
      return "Avx512Bf16;Avx512";
    case moh::CpuIsa::kAvx512:
      return "Avx512";
    case moh::CpuIsa::kAvx2:
      return "Avx2";
    default:
      return "Baseline";
  }
}

}  // namespace

int main() {
  std::printf("%s", tags_of(moh::best_isa_of_processor()));
}
