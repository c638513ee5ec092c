#include "core/cuda/fault.h"
#include "ops/device/kernel.h"
#include "ops/indices_kernels.h"

namespace moh {

namespace {

/// If several indices are out of range, any one of them may be reported.
struct CheckIndex {
  std::int64_t* indices;
  std::int64_t bound, ignored;
  std::int32_t kind;
  cuda::Fault* fault;
  MOH_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t index = indices[i];
    if ((index >= 0 && index < bound) || index == ignored) return;
    indices[i] = 0;
    fault->value = index;
    fault->place = i;
    fault->kind = kind;
  }
};

}  // namespace

template <class Backend>
void IndexKernels<Backend>::check(std::int64_t* indices, std::int64_t count, std::int64_t bound,
                                  std::int64_t ignored, std::int32_t kind) {
  cuda::launch_each("check_indices", count,
                    CheckIndex{indices, bound, ignored, kind, cuda::fault_on_device()});
}

template struct IndexKernels<Cuda>;

}  // namespace moh
