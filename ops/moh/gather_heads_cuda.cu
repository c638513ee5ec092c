#include "ops/cuda/block_sizes.h"
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

/// A piece of z: of a slot, or of the sum after them.
template <class T, int kCount>
struct AppendSum {
  const T* y;
  const float* gates;
  T* z;
  SlotShape shape;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division piece = divide(i, shape.head_dim / kCount);
    const Division slot = divide(piece.quotient, shape.slots + 1);
    const T* of_token = y + slot.quotient * shape.slots * shape.head_dim + piece.rest * kCount;
    if (slot.rest < shape.slots)
      return HeadPiece<T, kCount>::load(of_token + slot.rest * shape.head_dim).store(z + i * kCount);
    float sum[kCount] = {};
    for (std::int64_t s = 0; s < shape.slots; ++s) {
      const float gate = gates[slot.quotient * shape.heads + shape.numbers[slot.quotient * shape.slots + s]];
      const auto of_slot = HeadPiece<T, kCount>::load(of_token + s * shape.head_dim);
      for (int j = 0; j < kCount; ++j) sum[j] += gate * static_cast<float>(of_slot.values[j]);
    }
    HeadPiece<T, kCount> result;
    for (int j = 0; j < kCount; ++j) result.values[j] = sum[j];
    result.store(z + i * kCount);
  }
};

/// The gradients of outputs at slots and of their gates, from dx of all heads, or from dz of slots with their
/// sum.
template <class T>
struct SlotGradient {
  const T* gradient;
  const T* y;
  const float* gates;
  T* dy;
  float* d_gates;
  SlotShape shape;
};

/// One warp per head of a token. kSum: the gradient is dz.
template <class T, int kCount, bool kSum>
MOH_KERNEL(kItemThreads)
void slot_gradient_kernel(SlotGradient<T> g) {
  const std::int64_t pair = item_of_warp();
  if (pair >= g.shape.tokens * g.shape.heads) return;
  const Division head = divide(pair, g.shape.heads);
  const std::int64_t slot = slot_of(g.shape, head.quotient, head.rest), d = g.shape.head_dim;
  float sum = 0;
  if (slot >= 0) {
    // z has a row more each token, its last, which is the sum.
    const std::int64_t row = kSum ? (head.quotient + 1) * (g.shape.slots + 1) - 1 : pair;
    const std::int64_t before = kSum ? (row - head.quotient - slot) * d : 0;
    sum = gated_row_backward<T, kCount, kSum>(g.gradient + row * d, g.y + slot * d, g.gates[pair],
                                              g.dy + slot * d, d, before);
  }
  if (device::thread_x() % device::kWarp == 0) g.d_gates[pair] = sum;
}

template <bool kSum, class T>
void launch_slot_gradient(const char* name, const SlotGradient<T>& gradient) {
  const std::int64_t blocks = item_blocks(gradient.shape.tokens * gradient.shape.heads);
  launch_pieces<T>(gradient.shape.head_dim, [&]<int kCount>() {
    cuda::launch(name, slot_gradient_kernel<T, kCount, kSum>, {.blocks_x = blocks, .threads = kItemThreads},
                 gradient);
  });
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
  launch_slot_gradient<false, T>("scatter_heads_gradient", {dx, y, gates, dy, d_gates, s});
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::append_sum(const T* y, const Acc<T>* gates, T* z, const SlotShape& s) {
  launch_pieces<T>(s.head_dim, [&]<int kCount>() {
    cuda::launch_each("append_slot_sum", s.tokens * (s.slots + 1) * (s.head_dim / kCount),
                      AppendSum<T, kCount>{y, gates, z, s});
  });
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::append_sum_backward(const T* dz, const T* y, const Acc<T>* gates, T* dy,
                                                         Acc<T>* d_gates, const SlotShape& s) {
  launch_slot_gradient<true, T>("append_slot_sum_gradient", {dz, y, gates, dy, d_gates, s});
}

template struct GatherHeadsKernels<Cuda, float>;
template struct GatherHeadsKernels<Cuda, bfloat16>;

}  // namespace moh
