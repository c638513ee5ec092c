#include "ops/cuda/block_sizes.h"
#include "ops/cuda/divide.h"
#include "ops/moh/head_rows_cuda.h"
#include "ops/moh/mix_experts_kernels.h"

namespace moh {

namespace {

/// Piece i of a head: the sum of the pieces of its selected experts, times their gates.
template <class T, int kCount>
MOH_DEVICE HeadPiece<T, kCount> mixed_piece(const T* rows, const float* gates, std::int64_t head,
                                            std::int64_t i, const ExpertRows& s) {
  using Piece = HeadPiece<T, kCount>;
  float sums[kCount] = {};
  for (std::int64_t e = head * s.experts; e < (head + 1) * s.experts; ++e) {
    if (s.selected[e] == 0) continue;
    const Piece piece = Piece::load(rows + e * s.head_dim + i * kCount);
    for (int j = 0; j < kCount; ++j) sums[j] += gates[e] * static_cast<float>(piece.values[j]);
  }
  Piece result{};
  for (int j = 0; j < kCount; ++j) result.values[j] = static_cast<T>(sums[j]);
  return result;
}

/// A piece of a head.
template <class T, int kCount>
struct MixExperts {
  const T* rows;
  const float* gates;
  T* heads;
  ExpertRows shape;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division piece = divide(i, shape.head_dim / kCount);
    mixed_piece<T, kCount>(rows, gates, piece.quotient, piece.rest, shape).store(heads + i * kCount);
  }
};

/// A piece of an expert's row.
template <class T, int kCount>
struct SpreadToExperts {
  const T* heads;
  const float* gates;
  T* rows;
  ExpertRows shape;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division piece = divide(i, shape.head_dim / kCount);
    const std::int64_t expert = piece.quotient;
    HeadPiece<T, kCount> result{};
    if (shape.selected[expert] != 0) {
      const std::int64_t head = divide(expert, shape.experts).quotient;
      result = HeadPiece<T, kCount>::load(heads + head * shape.head_dim + piece.rest * kCount);
      result.scale(gates[expert]);
    }
    result.store(rows + i * kCount);
  }
};

template <class T>
struct MixGradient {
  const T *d_heads, *rows;
  const float* gates;
  T* d_rows;
  float* d_gates;
  ExpertRows shape;
};

template <class T>
struct SpreadGradient {
  const T *d_rows, *heads;
  const float* gates;
  T* d_heads;
  float* d_gates;
  ExpertRows shape;
};

/// One warp per expert of a token.
template <class T, int kCount>
MOH_KERNEL(kItemThreads)
void mix_experts_gradient_kernel(MixGradient<T> g) {
  const std::int64_t expert = item_of_warp(), d = g.shape.head_dim;
  if (expert >= g.shape.heads * g.shape.experts) return;
  float sum = 0;
  if (g.shape.selected[expert] != 0) {
    const std::int64_t head = divide(expert, g.shape.experts).quotient;
    sum = gated_row_backward<T, kCount>(g.d_heads + head * d, g.rows + expert * d, g.gates[expert],
                                        g.d_rows + expert * d, d);
  } else {
    on_lanes(d / kCount,
             [&](std::int64_t i) { HeadPiece<T, kCount>{}.store(g.d_rows + expert * d + i * kCount); });
  }
  if (device::thread_x() % device::kWarp == 0) g.d_gates[expert] = sum;
}

/// One warp per head of a token: the rows of its experts, which the gates' gradients read first, are in L1
/// for the sum.
template <class T, int kCount>
MOH_KERNEL(kItemThreads)
void spread_to_experts_gradient_kernel(SpreadGradient<T> g) {
  using Piece = HeadPiece<T, kCount>;
  const std::int64_t head = item_of_warp(), d = g.shape.head_dim;
  if (head >= g.shape.heads) return;
  for (std::int64_t e = head * g.shape.experts; e < (head + 1) * g.shape.experts; ++e) {
    float sum = 0;
    if (g.shape.selected[e] != 0) {
      sum = sum_on_lanes(d / kCount, [&](std::int64_t i) {
        const Piece gradient = Piece::load(g.d_rows + e * d + i * kCount);
        const Piece input = Piece::load(g.heads + head * d + i * kCount);
        float part = 0;
        for (int j = 0; j < kCount; ++j)
          part += static_cast<float>(gradient.values[j]) * static_cast<float>(input.values[j]);
        return part;
      });
    }
    if (device::thread_x() % device::kWarp == 0) g.d_gates[e] = sum;
  }
  on_lanes(d / kCount, [&](std::int64_t i) {
    mixed_piece<T, kCount>(g.d_rows, g.gates, head, i, g.shape).store(g.d_heads + head * d + i * kCount);
  });
}

cuda::LaunchShape warps_for(std::int64_t count) {
  return {.blocks_x = item_blocks(count), .threads = kItemThreads};
}

}  // namespace

template <class Backend, class T>
void MixExpertsKernels<Backend, T>::mix(const T* rows, const Acc<T>* gates, T* heads, const ExpertRows& s) {
  launch_pieces<T>(s.head_dim, [&]<int kCount>() {
    cuda::launch_each("mix_experts", s.heads * (s.head_dim / kCount),
                      MixExperts<T, kCount>{rows, gates, heads, s});
  });
}

template <class Backend, class T>
void MixExpertsKernels<Backend, T>::mix_backward(const T* d_heads, const T* rows, const Acc<T>* gates,
                                                 T* d_rows, Acc<T>* d_gates, const ExpertRows& s) {
  const MixGradient<T> gradient{d_heads, rows, gates, d_rows, d_gates, s};
  launch_pieces<T>(s.head_dim, [&]<int kCount>() {
    cuda::launch("mix_experts_gradient", mix_experts_gradient_kernel<T, kCount>,
                 warps_for(s.heads * s.experts), gradient);
  });
}

template <class Backend, class T>
void MixExpertsKernels<Backend, T>::spread(const T* heads, const Acc<T>* gates, T* rows,
                                           const ExpertRows& s) {
  launch_pieces<T>(s.head_dim, [&]<int kCount>() {
    cuda::launch_each("spread_to_experts", s.heads * s.experts * (s.head_dim / kCount),
                      SpreadToExperts<T, kCount>{heads, gates, rows, s});
  });
}

template <class Backend, class T>
void MixExpertsKernels<Backend, T>::spread_backward(const T* d_rows, const T* heads, const Acc<T>* gates,
                                                    T* d_heads, Acc<T>* d_gates, const ExpertRows& s) {
  const SpreadGradient<T> gradient{d_rows, heads, gates, d_heads, d_gates, s};
  launch_pieces<T>(s.head_dim, [&]<int kCount>() {
    cuda::launch("spread_to_experts_gradient", spread_to_experts_gradient_kernel<T, kCount>,
                 warps_for(s.heads), gradient);
  });
}

template struct MixExpertsKernels<Cuda, float>;
template struct MixExpertsKernels<Cuda, bfloat16>;

}  // namespace moh
