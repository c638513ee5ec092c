#include "core/error.h"
#include "ops/attention/head_lists_cuda.h"
#include "ops/indices_kernels.h"
#include "ops/linalg/gemm_cuda.h"
#include "ops/moh/head_sequences_kernels.h"
#include "ops/moh/head_slots_cuda.h"

// For a build without a CUDA toolkit. It has no device tensors (core/cuda/absent.cpp), so that only the
// functions that read options can be called.

namespace moh {

namespace {

[[noreturn]] void not_open() {
  fail_check(__FILE__, __LINE__, "the CPU", "this build has no CUDA");
}

}  // namespace

void CudaHeadLists::fill(const HeadListArgs&) {
  not_open();
}
void CudaHeadSlots::fill(const HeadSlotArgs&) {
  not_open();
}
void CudaHeadSequences::fill(const HeadSequenceArgs&) {
  not_open();
}
void cuda_gemm(const CudaGemm&, const CudaGemmData&) {
  not_open();
}
void set_cuda_gemm_options(const GemmOptions&) {
  throw DeviceError("matrix multiplications: this build computes on the CPU only");
}
std::vector<GemmSearch> cuda_gemm_searches() {
  return {};
}
template <>
void IndexKernels<Cuda>::check(std::int64_t*, std::int64_t, std::int64_t, std::int64_t, std::int32_t) {
  not_open();
}

}  // namespace moh
