#include "ops/cuda/divide.h"
#include "ops/cuda/lanes.h"
#include "ops/cuda/map.h"
#include "ops/moh/head_sequences_kernels.h"

namespace moh {

namespace {

struct FillRow {
  HeadSequenceArgs args;

  MOH_DEVICE void operator()(std::int64_t r) const { fill_head_sequence_row(args, r); }
};

/// Elements of a row that a thread reads and writes in one access.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) RowPiece {
  T values[kCount];
};

/// A piece of y.
template <class T, int kCount>
struct GatherPairs {
  const T* x;
  T* y;
  PairRows of;

  MOH_DEVICE void operator()(std::int64_t i) const {
    using Piece = RowPiece<T, kCount>;
    const Division piece = divide(i, of.head_dim / kCount);
    const std::int64_t pair = of.pairs[piece.quotient];
    Piece result{};
    if (pair >= 0) result = *reinterpret_cast<const Piece*>(x + pair * of.head_dim + piece.rest * kCount);
    *reinterpret_cast<Piece*>(y + i * kCount) = result;
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
    using Piece = RowPiece<T, kCount>;
    const Division piece = divide(i, of.head_dim / kCount);
    const std::int64_t pair = of.pairs[piece.quotient];
    if (pair < 0) return;
    Piece result = *reinterpret_cast<const Piece*>(y + i * kCount);
    const float gate = gates != nullptr ? gates[pair] : 1.0F;
    for (T& value : result.values) value = gate * static_cast<float>(value);
    *reinterpret_cast<Piece*>(x + pair * of.head_dim + piece.rest * kCount) = result;
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

constexpr int kWarps = 4, kThreads = kWarps * device::kWarp;

/// One warp per row.
template <class T, int kCount>
MOH_KERNEL(kThreads)
void scatter_pairs_gradient_kernel(ScatterPairsGradient<T> g) {
  const std::int64_t row = device::block_x() * kWarps + device::thread_x() / device::kWarp;
  if (row >= g.of.rows) return;
  const std::int64_t pair = g.of.pairs[row], d = g.of.head_dim;
  const float gate = pair >= 0 ? g.gates[pair] : 0;
  using Piece = RowPiece<T, kCount>;
  const float sum = sum_on_lanes(d / kCount, [&](std::int64_t i) {
    Piece result{};
    float of_piece = 0;
    if (pair >= 0) {
      const Piece gradient = *reinterpret_cast<const Piece*>(g.dx + pair * d + i * kCount),
                  output = *reinterpret_cast<const Piece*>(g.y + row * d + i * kCount);
      for (int j = 0; j < kCount; ++j) {
        of_piece += static_cast<float>(gradient.values[j]) * static_cast<float>(output.values[j]);
        result.values[j] = gate * static_cast<float>(gradient.values[j]);
      }
    }
    *reinterpret_cast<Piece*>(g.dy + row * d + i * kCount) = result;
    return of_piece;
  });
  if (pair >= 0 && device::thread_x() % device::kWarp == 0) g.d_gates[pair] = sum;
}

/// Calls launch.template operator()<kCount>() with as many elements as 16 bytes have, if every row is aligned
/// to them, or 1.
template <class T, class Launch>
void launch_pieces(const PairRows& of, const Launch& launch) {
  constexpr int kPack = Pack<T>::kCount;
  if (of.head_dim % kPack == 0) {
    launch.template operator()<kPack>();
  } else {
    launch.template operator()<1>();
  }
}

}  // namespace

void CudaHeadSequences::fill(const HeadSequenceArgs& args) {
  cuda::launch_each("head_sequences", args.rows, FillRow{args});
}

template <class Backend, class T>
void PairRowKernels<Backend, T>::gather(const T* x, T* y, const PairRows& of) {
  launch_pieces<T>(of, [&]<int kCount>() {
    cuda::launch_each("gather_pairs", of.rows * (of.head_dim / kCount), GatherPairs<T, kCount>{x, y, of});
  });
}

template <class Backend, class T>
void PairRowKernels<Backend, T>::scatter(const T* y, const Acc<T>* gates, T* x, const PairRows& of) {
  launch_pieces<T>(of, [&]<int kCount>() {
    cuda::launch_each("scatter_pairs", of.rows * (of.head_dim / kCount),
                      ScatterPairs<T, kCount>{y, gates, x, of});
  });
}

template <class Backend, class T>
void PairRowKernels<Backend, T>::scatter_backward(const T* dx, const T* y, const Acc<T>* gates, T* dy,
                                                  Acc<T>* d_gates, const PairRows& of) {
  const ScatterPairsGradient<T> gradient{dx, y, gates, dy, d_gates, of};
  const std::int64_t blocks = (of.rows + kWarps - 1) / kWarps;
  launch_pieces<T>(of, [&]<int kCount>() {
    cuda::launch("scatter_pairs_gradient", scatter_pairs_gradient_kernel<T, kCount>,
                 {.blocks_x = blocks, .threads = kThreads}, gradient);
  });
}

template struct PairRowKernels<Cuda, float>;
template struct PairRowKernels<Cuda, bfloat16>;

}  // namespace moh
