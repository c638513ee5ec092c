#include "core/cpu_isa.h"

#include <catch2/catch.hpp>
#include <iostream>
#include <string>

#include "core/cpu_caches.h"
#include "core/error.h"
#include "core/processor_isa.h"
#include "core/visit_cpu_isa.h"
#include "tests/support/every_isa.h"
#include "tests/support/own_case.h"

using namespace moh;

namespace {

/// The output of the hidden probe case below in a process of its own: MOH_CPU_ISA is read once per process.
std::string probe(const std::string& environment) {
  return test::output_of_own_case("probe: the chosen instruction set", environment);
}

CpuIsa best() {
  CpuIsa best{};
  for (const CpuIsa isa : kCpuIsas) {
    if (cpu_has_isa(isa) && processor_gains(isa)) best = isa;
  }
  return best;
}

}  // namespace

TEST_CASE("probe: the chosen instruction set", "[.]") {
  try {
    std::cout << "isa=" << cpu_isa_name(cpu_isa()) << "." << std::endl;
  } catch (const ValueError& error) {
    std::cout << "refused=" << error.what() << std::endl;
  }
}

TEST_CASE("cpu_isa: MOH_CPU_ISA chooses among those of this processor, and the default is the best",
          "[every_isa]") {
  const std::string best_name(cpu_isa_name(best()));
  CHECK_THAT(probe("MOH_CPU_ISA="), Catch::Contains("isa=" + best_name + "."));
  CHECK_THAT(probe("env -u MOH_CPU_ISA"), Catch::Contains("isa=" + best_name + "."));
  for (const CpuIsa isa : kCpuIsas) {
    const std::string name(cpu_isa_name(isa));
    const std::string output = probe("MOH_CPU_ISA=" + name);
    if (cpu_has_isa(isa)) {
      CHECK_THAT(output, Catch::Contains("isa=" + name + "."));
    } else {
      const std::string expected = processor_has(isa) ? "build (" : "processor (the best is ";
      CHECK_THAT(output,
                 Catch::Contains("refused=MOH_CPU_ISA: expected an instruction set of this " + expected) &&
                     Catch::Contains("found " + name));
    }
  }
}

TEST_CASE("cpu_isa: an unknown MOH_CPU_ISA is refused with the known ones") {
  CHECK_THAT(probe("MOH_CPU_ISA=sse9"),
             Catch::Contains("refused=MOH_CPU_ISA: expected one of baseline, avx2, avx512, avx512_bf16, amx, "
                             "amx_plain, found sse9"));
}

TEST_CASE("cpu_isa: a scope overrides the choice and puts it back", "[every_isa]") {
  const CpuIsa before = cpu_isa();
  for (const CpuIsa isa : kCpuIsas) {
    if (!cpu_has_isa(isa)) {
      CHECK_THROWS_AS(CpuIsaScope(isa), ValueError);
      continue;
    }
    {
      const CpuIsaScope scope(isa);
      CHECK(cpu_isa() == isa);
      const CpuIsaScope nested(best());
      CHECK(cpu_isa() == best());
    }
    CHECK(cpu_isa() == before);
  }
}

TEST_CASE("cpu_isa: visiting passes the tag of the current instruction set, or of its base", "[every_isa]") {
  const auto isa_of_tag = []<class Tag>() {
    if constexpr (std::is_same_v<Tag, cpu::Amx>) return CpuIsa::kAmx;
    if constexpr (std::is_same_v<Tag, cpu::AmxPlain>) return CpuIsa::kAmxPlain;
    if constexpr (std::is_same_v<Tag, cpu::Avx512Bf16>) return CpuIsa::kAvx512Bf16;
    if constexpr (std::is_same_v<Tag, cpu::Avx512>) return CpuIsa::kAvx512;
    if constexpr (std::is_same_v<Tag, cpu::Avx2>) return CpuIsa::kAvx2;
    return CpuIsa::kBaseline;
  };
  for (const CpuIsa isa : test::every_isa()) {
    const CpuIsaScope scope(isa);
    CHECK(visit_gemm_isa(isa_of_tag) == isa);
    CHECK(visit_matrix_isa(isa_of_tag) == (isa == CpuIsa::kAvx512Bf16 ? isa : base_isa(isa)));
    CHECK(visit_cpu_isa(isa_of_tag) == base_isa(isa));
  }
}

TEST_CASE("cpu caches: a size that a block can be made for, the same at each call") {
  const std::int64_t bytes = l2_cache_bytes();
  CHECK(bytes >= 128 << 10);
  CHECK(bytes <= 4 << 20);
  CHECK(l2_cache_bytes() == bytes);
}
