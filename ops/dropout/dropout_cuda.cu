#include "core/philox.h"
#include "ops/cuda/map.h"
#include "ops/dropout/dropout_kernels.h"

namespace moh {

namespace {

/// The same words as on the CPU: element i takes word i % 4 of counter i / 4.
struct ApplyMask {
  DropoutMask mask;
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[1], std::int64_t i) const {
    const std::uint64_t first =
        mask.first_stream == nullptr ? 0 : static_cast<std::uint64_t>(*mask.first_stream);
    const auto words = philox(mask.seed, static_cast<std::uint64_t>(i) / 4, first + mask.stream);
    out[0] =
        in[0] *
        (words[static_cast<std::size_t>(i % 4)] < mask.threshold ? 0.0F : static_cast<float>(mask.scale));
  }
};

}  // namespace

template <class Backend, class T>
void DropoutKernels<Backend, T>::apply(const T* x, T* y, std::int64_t count, DropoutMask mask) {
  launch_map<T, 1, 1>("dropout", count, {{x}, {y}}, ApplyMask{mask});
}

template struct DropoutKernels<Cuda, float>;
template struct DropoutKernels<Cuda, bfloat16>;

}  // namespace moh
