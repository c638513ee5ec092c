#include "ops/cuda/divide.h"
#include "ops/cuda/lanes.h"
#include "ops/cuda/map.h"
#include "ops/moh/gather_heads_kernels.h"

namespace moh {

namespace {

/// Elements of a head that a thread reads and writes in one access.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) HeadPiece {
  T values[kCount];
};

/// The slot of head h of token n, counted through all tokens; -1 without one.
MOH_DEVICE std::int64_t slot_of(const SlotShape& s, std::int64_t n, std::int64_t h) {
  const std::int64_t each = s.slots / s.groups, first = n * s.slots + h / (s.heads / s.groups) * each;
  for (std::int64_t slot = first; slot < first + each; ++slot) {
    if (s.numbers[slot] == h) return slot;
  }
  return -1;
}

/// A piece of y.
template <class T, int kCount>
struct GatherHeads {
  const T* x;
  T* y;
  SlotShape shape;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division piece = divide(i, shape.head_dim / kCount);
    const std::int64_t token = divide(piece.quotient, shape.slots).quotient;
    const std::int64_t head = token * shape.heads + shape.numbers[piece.quotient];
    using Piece = HeadPiece<T, kCount>;
    *reinterpret_cast<Piece*>(y + i * kCount) =
        *reinterpret_cast<const Piece*>(x + head * shape.head_dim + piece.rest * kCount);
  }
};

/// A piece of x.
template <class T, int kCount>
struct ScatterHeads {
  const T* y;
  const float* gates;
  T* x;
  SlotShape shape;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division piece = divide(i, shape.head_dim / kCount);
    const Division head = divide(piece.quotient, shape.heads);
    const std::int64_t slot = slot_of(shape, head.quotient, head.rest);
    HeadPiece<T, kCount> result{};
    if (slot >= 0) {
      const float gate = gates != nullptr ? gates[piece.quotient] : 1.0F;
      result =
          *reinterpret_cast<const HeadPiece<T, kCount>*>(y + slot * shape.head_dim + piece.rest * kCount);
      for (T& value : result.values) value = gate * static_cast<float>(value);
    }
    *reinterpret_cast<HeadPiece<T, kCount>*>(x + i * kCount) = result;
  }
};

template <class T>
struct ScatterGradient {
  const T *dx, *y;
  const float* gates;
  T* dy;
  float* d_gates;
  SlotShape shape;
};

constexpr int kWarps = 4, kThreads = kWarps * device::kWarp;

/// One warp per head of a token.
template <class T, int kCount>
MOH_KERNEL(kThreads)
void scatter_heads_gradient_kernel(ScatterGradient<T> g) {
  const std::int64_t pair = device::block_x() * kWarps + device::thread_x() / device::kWarp;
  if (pair >= g.shape.tokens * g.shape.heads) return;
  const Division head = divide(pair, g.shape.heads);
  const std::int64_t slot = slot_of(g.shape, head.quotient, head.rest), d = g.shape.head_dim;
  float sum = 0;
  if (slot >= 0) {
    const float gate = g.gates[pair];
    using Piece = HeadPiece<T, kCount>;
    sum = sum_on_lanes(d / kCount, [&](std::int64_t i) {
      const Piece gradient = *reinterpret_cast<const Piece*>(g.dx + pair * d + i * kCount),
                  output = *reinterpret_cast<const Piece*>(g.y + slot * d + i * kCount);
      Piece result;
      float of_piece = 0;
      for (int j = 0; j < kCount; ++j) {
        of_piece += static_cast<float>(gradient.values[j]) * static_cast<float>(output.values[j]);
        result.values[j] = gate * static_cast<float>(gradient.values[j]);
      }
      *reinterpret_cast<Piece*>(g.dy + slot * d + i * kCount) = result;
      return of_piece;
    });
  }
  if (device::thread_x() % device::kWarp == 0) g.d_gates[pair] = sum;
}

/// Calls launch.template operator()<kCount>() with as many elements as 16 bytes have, if every head is
/// aligned to them, or 1.
template <class T, class Launch>
void launch_pieces(const SlotShape& shape, const Launch& launch) {
  constexpr int kPack = Pack<T>::kCount;
  if (shape.head_dim % kPack == 0) {
    launch.template operator()<kPack>();
  } else {
    launch.template operator()<1>();
  }
}

}  // namespace

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::gather(const T* x, T* y, const SlotShape& s) {
  launch_pieces<T>(s, [&]<int kCount>() {
    cuda::launch_each("gather_heads", s.tokens * s.slots * (s.head_dim / kCount),
                      GatherHeads<T, kCount>{x, y, s});
  });
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::scatter(const T* y, const Acc<T>* gates, T* x, const SlotShape& s) {
  launch_pieces<T>(s, [&]<int kCount>() {
    cuda::launch_each("scatter_heads", s.tokens * s.heads * (s.head_dim / kCount),
                      ScatterHeads<T, kCount>{y, gates, x, s});
  });
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::scatter_backward(const T* dx, const T* y, const Acc<T>* gates, T* dy,
                                                      Acc<T>* d_gates, const SlotShape& s) {
  const ScatterGradient<T> gradient{dx, y, gates, dy, d_gates, s};
  const std::int64_t blocks = (s.tokens * s.heads + kWarps - 1) / kWarps;
  launch_pieces<T>(s, [&]<int kCount>() {
    cuda::launch("scatter_heads_gradient", scatter_heads_gradient_kernel<T, kCount>,
                 {.blocks_x = blocks, .threads = kThreads}, gradient);
  });
}

template struct GatherHeadsKernels<Cuda, float>;
template struct GatherHeadsKernels<Cuda, bfloat16>;

}  // namespace moh
