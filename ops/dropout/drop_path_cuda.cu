#include <algorithm>

#include "ops/cuda/rows.h"
#include "ops/dropout/drop_path_kernels.h"
#include "ops/dropout/dropout_mask_cuda.h"

namespace moh {

namespace {

/// Pieces of 16 bytes per thread, which draws its sample's random word once for all of them.
constexpr std::int64_t kPieces = 8;
/// Limit of gridDim.y; threads process more pieces instead.
constexpr std::int64_t kMostParts = 65535;

/// Grid: x is the sample, y a part of it.
template <class T>
MOH_KERNEL(kMostRowThreads)
void drop_path_kernel(RowAccess<const T> x, RowAccess<const T> addend, RowAccess<T> y, DropoutMask mask) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t b = device::block_x();
  const RowAccess<const T> from = x.at(b);
  const RowAccess<T> to = y.at(b);
  const float factor = device_factor_of(mask, b);
  const std::int64_t threads = device::block_threads();
  for (std::int64_t piece = device::block_y() * threads + device::thread_x(); piece * kPack < x.width;
       piece += device::blocks_y() * threads) {
    float values[kPack];
    from.load(piece * kPack, values);
    for (int j = 0; j < kPack; ++j) values[j] *= factor;
    if (addend.row != nullptr) {
      float added[kPack];
      addend.at(b).load(piece * kPack, added);
      for (int j = 0; j < kPack; ++j) values[j] += added[j];
    }
    to.store(piece * kPack, values);
  }
}

}  // namespace

template <class Backend, class T>
void DropPathKernels<Backend, T>::apply(const T* x, const T* addend, T* y, Rows samples, DropoutMask mask) {
  const int threads = row_threads<T>(samples.width);
  const std::int64_t of_part = threads * kPieces * Pack<T>::kCount;
  const std::int64_t parts = std::min((samples.width + of_part - 1) / of_part, kMostParts);
  cuda::launch("drop_path", drop_path_kernel<T>,
               {.blocks_x = samples.count, .blocks_y = parts, .threads = threads}, rows_at(x, samples.width),
               rows_at(addend, samples.width), rows_at(y, samples.width), mask);
}

template struct DropPathKernels<Cuda, float>;
template struct DropPathKernels<Cuda, bfloat16>;

}  // namespace moh
