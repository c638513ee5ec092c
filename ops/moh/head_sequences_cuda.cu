#include "ops/cuda/block_sizes.h"
#include "ops/cuda/divide.h"
#include "ops/moh/head_rows_cuda.h"
#include "ops/moh/head_sequences_kernels.h"

namespace moh {

namespace {

struct FillRow {
  HeadSequenceArgs args;

  MOH_DEVICE void operator()(std::int64_t r) const { fill_head_sequence_row(args, r); }
};

/// A piece of y.
template <class T, int kCount>
struct GatherPairs {
  const T* x;
  T* y;
  PairRows of;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division piece = divide(i, of.head_dim / kCount);
    const std::int64_t pair = of.pairs[piece.quotient];
    HeadPiece<T, kCount> result{};
    if (pair >= 0) result = HeadPiece<T, kCount>::load(x + pair * of.head_dim + piece.rest * kCount);
    result.store(y + i * kCount);
  }
};

/// A piece of x, of a pair with a row.
template <class T, int kCount>
struct ScatterPairs {
  const T* y;
  const float* gates;
  T* x;
  PairRows of;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division piece = divide(i, of.head_dim / kCount);
    const std::int64_t pair = of.pairs[piece.quotient];
    if (pair < 0) return;
    auto result = HeadPiece<T, kCount>::load(y + i * kCount);
    result.scale(gates != nullptr ? gates[pair] : 1.0F);
    result.store(x + pair * of.head_dim + piece.rest * kCount);
  }
};

template <class T>
struct ScatterPairsGradient {
  const T *dx, *y;
  const float* gates;
  T* dy;
  float* d_gates;
  PairRows of;
};

/// One warp per row.
template <class T, int kCount>
MOH_KERNEL(kItemThreads)
void scatter_pairs_gradient_kernel(ScatterPairsGradient<T> g) {
  const std::int64_t row = item_of_warp();
  if (row >= g.of.rows) return;
  const std::int64_t pair = g.of.pairs[row], d = g.of.head_dim;
  T* const dy = g.dy + row * d;
  if (pair < 0) {
    on_lanes(d / kCount, [&](std::int64_t i) { HeadPiece<T, kCount>{}.store(dy + i * kCount); });
    return;
  }
  const float sum = gated_row_backward<T, kCount>(g.dx + pair * d, g.y + row * d, g.gates[pair], dy, d);
  if (device::thread_x() % device::kWarp == 0) g.d_gates[pair] = sum;
}

}  // namespace

void CudaHeadSequences::fill(const HeadSequenceArgs& args) {
  cuda::launch_each("head_sequences", args.rows, FillRow{args});
}

template <class Backend, class T>
void PairRowKernels<Backend, T>::gather(const T* x, T* y, const PairRows& of) {
  launch_pieces<T>(of.head_dim, [&]<int kCount>() {
    cuda::launch_each("gather_pairs", of.rows * (of.head_dim / kCount), GatherPairs<T, kCount>{x, y, of});
  });
}

template <class Backend, class T>
void PairRowKernels<Backend, T>::scatter(const T* y, const Acc<T>* gates, T* x, const PairRows& of) {
  launch_pieces<T>(of.head_dim, [&]<int kCount>() {
    cuda::launch_each("scatter_pairs", of.rows * (of.head_dim / kCount),
                      ScatterPairs<T, kCount>{y, gates, x, of});
  });
}

template <class Backend, class T>
void PairRowKernels<Backend, T>::scatter_backward(const T* dx, const T* y, const Acc<T>* gates, T* dy,
                                                  Acc<T>* d_gates, const PairRows& of) {
  const ScatterPairsGradient<T> gradient{dx, y, gates, dy, d_gates, of};
  const std::int64_t blocks = item_blocks(of.rows);
  launch_pieces<T>(of.head_dim, [&]<int kCount>() {
    cuda::launch("scatter_pairs_gradient", scatter_pairs_gradient_kernel<T, kCount>,
                 {.blocks_x = blocks, .threads = kItemThreads}, gradient);
  });
}

template struct PairRowKernels<Cuda, float>;
template struct PairRowKernels<Cuda, bfloat16>;

}  // namespace moh
