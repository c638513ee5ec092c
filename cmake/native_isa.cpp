// Prints the tag of the best instruction set of the processor that configures the build, and behind a
// semicolon that of the one whose kernels it runs beside its own (MohCpuIsas.cmake).
#include <cstdio>

#include "core/processor_isa.h"

namespace {

const char* tag_of(moh::CpuIsa isa) {
  switch (isa) {
    case moh::CpuIsa::kAvx512Bf16:
      return "Avx512Bf16";
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
  const moh::CpuIsa best = moh::best_isa_of_processor(), base = moh::base_isa(best);
  std::printf("%s", tag_of(best));
  if (best != base) std::printf(";%s", tag_of(base));
}
