#include "ops/cuda/divide.h"
#include "ops/moh/gather_heads_kernels.h"
#include "ops/moh/head_rows_cuda.h"

namespace moh {

namespace {

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
    HeadPiece<T, kCount>::load(x + head * shape.head_dim + piece.rest * kCount).store(y + i * kCount);
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
      result = HeadPiece<T, kCount>::load(y + slot * shape.head_dim + piece.rest * kCount);
      result.scale(gates != nullptr ? gates[piece.quotient] : 1.0F);
    }
    result.store(x + i * kCount);
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
  const float sum = slot < 0 ? 0
                             : gated_row_backward<T, kCount>(g.dx + pair * d, g.y + slot * d, g.gates[pair],
                                                             g.dy + slot * d, d);
  if (device::thread_x() % device::kWarp == 0) g.d_gates[pair] = sum;
}

}  // namespace

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::gather(const T* x, T* y, const SlotShape& s) {
  launch_pieces<T>(s.head_dim, [&]<int kCount>() {
    cuda::launch_each("gather_heads", s.tokens * s.slots * (s.head_dim / kCount),
                      GatherHeads<T, kCount>{x, y, s});
  });
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::scatter(const T* y, const Acc<T>* gates, T* x, const SlotShape& s) {
  launch_pieces<T>(s.head_dim, [&]<int kCount>() {
    cuda::launch_each("scatter_heads", s.tokens * s.heads * (s.head_dim / kCount),
                      ScatterHeads<T, kCount>{y, gates, x, s});
  });
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::scatter_backward(const T* dx, const T* y, const Acc<T>* gates, T* dy,
                                                      Acc<T>* d_gates, const SlotShape& s) {
  const ScatterGradient<T> gradient{dx, y, gates, dy, d_gates, s};
  const std::int64_t blocks = (s.tokens * s.heads + kWarps - 1) / kWarps;
  launch_pieces<T>(s.head_dim, [&]<int kCount>() {
    cuda::launch("scatter_heads_gradient", scatter_heads_gradient_kernel<T, kCount>,
                 {.blocks_x = blocks, .threads = kThreads}, gradient);
  });
}

template struct GatherHeadsKernels<Cuda, float>;
template struct GatherHeadsKernels<Cuda, bfloat16>;

}  // namespace moh
