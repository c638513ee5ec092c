#pragma once

#include <array>
#include <string_view>

namespace moh {

/// Instruction sets for which the CPU kernels are compiled (moh_cpu_kernels in cmake/MohLayer.cmake): all of
/// them, or with MOH_CPU_KERNELS=native the best of the machine that builds. Baseline is x86-64-v2, or
/// whatever the compiler targets on other processors. Avx512Bf16 adds AVX512-BF16, which multiplies pairs of
/// bfloat16 and rounds to it: kernels that gain nothing are those of Avx512. Amx adds the GEMM of bfloat16
/// in the tiles of AMX; all other kernels are those of Avx512, which are faster there than AVX512-BF16
/// (processor_gains()). AmxPlain is that GEMM in plain C++, with the same bits, for tests on processors
/// without AMX: builds with tests have it, beside the least of their other instruction sets, and it is chosen
/// by name alone.
enum class CpuIsa { kBaseline, kAvx2, kAvx512, kAvx512Bf16, kAmx, kAmxPlain };

/// All of them, the least first.
inline constexpr std::array kCpuIsas = {CpuIsa::kBaseline,   CpuIsa::kAvx2, CpuIsa::kAvx512,
                                        CpuIsa::kAvx512Bf16, CpuIsa::kAmx,  CpuIsa::kAmxPlain};

/// Tags that keep the copies of a kernel template apart: RmsNormKernels<cpu::Avx2, float>, and so on.
namespace cpu {
struct Baseline {};
struct Avx2 {};
struct Avx512 {};
struct Avx512Bf16 {};
struct Amx {};
struct AmxPlain {};
}  // namespace cpu

/// The instruction set that kernels run with: the best that both this processor and this build have, or the
/// one that the environment variable MOH_CPU_ISA names. Throws ValueError when that one is unknown or absent,
/// or if there is none. AVX512-BF16 is the best only where the vendor of the processor is known to multiply
/// faster by it than by AVX-512 (processor_gains()), not by a measurement, so that a result's bits depend on
/// the processor alone; with AMX also on the operating system, which has to allow its use.
CpuIsa cpu_isa();

/// Whether this processor and this build have `isa`.
bool cpu_has_isa(CpuIsa isa);

/// The instruction set whose kernels `isa` runs beside its own: Avx512 for Avx512Bf16 and Amx, the least of
/// this build for AmxPlain, else itself.
CpuIsa base_isa(CpuIsa isa);

/// "baseline", "avx2", "avx512", "avx512_bf16", "amx", "amx_plain".
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
