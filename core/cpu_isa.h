#pragma once

#include <string_view>

namespace moh {

/// Instruction sets for which the CPU kernels are compiled (moh_cpu_kernels in cmake/MohLayer.cmake): all of
/// them, or with MOH_CPU_KERNELS=native the best of the machine that builds. Baseline is x86-64-v2, or
/// whatever the compiler targets on other processors.
enum class CpuIsa { kBaseline, kAvx2, kAvx512 };

/// Tags that keep the copies of a kernel template apart: RmsNormKernels<cpu::Avx2, float>, and so on.
namespace cpu {
struct Baseline {};
struct Avx2 {};
struct Avx512 {};
}  // namespace cpu

/// The instruction set that kernels run with: the best that both this processor and this build have, or the
/// one that the environment variable MOH_CPU_ISA names (baseline, avx2, avx512). Throws ValueError when that
/// one is unknown or absent, or if there is none.
CpuIsa cpu_isa();

/// Whether this processor and this build have `isa`.
bool cpu_has_isa(CpuIsa isa);

/// "baseline", "avx2", "avx512".
std::string_view cpu_isa_name(CpuIsa isa);

/// Overrides cpu_isa() for the lifetime of the object; for tests that compare instruction sets.
class CpuIsaScope {
 public:
  explicit CpuIsaScope(CpuIsa isa);
  ~CpuIsaScope();
  CpuIsaScope(const CpuIsaScope&) = delete;
  CpuIsaScope& operator=(const CpuIsaScope&) = delete;

 private:
  CpuIsa previous_;
};

}  // namespace moh
