#include "core/cuda/tag.h"
#include "ops/attention/position_bias_kernels.h"
#include "ops/cuda/divide.h"
#include "ops/cuda/scratch.h"
#include "ops/device/kernel.h"
#include "ops/embedding/embedding_kernels.h"

// The gradient of the table is that of an embedding whose ids are the index: sums of sorted runs
// (ops/embedding/embedding_cuda.cu).

namespace moh {

namespace {

template <class T>
struct GatherBias {
  const T* table;
  const std::int64_t* index;
  T* y;
  PositionBiasShape shape;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division at = divide(i, shape.pairs);
    y[i] = table[index[at.rest] * shape.heads + at.quotient];
  }
};

/// to [pairs, heads] in float32 = dy [heads, pairs]
template <class T>
struct RowsOfPairs {
  const T* dy;
  float* to;
  PositionBiasShape shape;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division at = divide(i, shape.heads);
    to[i] = dy[at.rest * shape.pairs + at.quotient];
  }
};

}  // namespace

template <class Backend, class T>
void PositionBiasKernels<Backend, T>::forward(const T* table, const std::int64_t* index, T* y,
                                              PositionBiasShape s) {
  cuda::launch_each("position_bias", s.heads * s.pairs, GatherBias<T>{table, index, y, s});
}

template <class Backend, class T>
void PositionBiasKernels<Backend, T>::backward(const T* dy, const std::int64_t* index, Acc<T>* dtable,
                                               PositionBiasShape s) {
  const DeviceScratch rows(static_cast<std::size_t>(s.heads * s.pairs) * sizeof(float));
  cuda::launch_each("position_bias_rows", s.heads * s.pairs, RowsOfPairs<T>{dy, rows.as<float>(), s});
  EmbeddingKernels<Cuda, float>::backward(rows.as<float>(), index, dtable,
                                          {.num_rows = s.rows, .width = s.heads, .num_ids = s.pairs});
}

template struct PositionBiasKernels<Cuda, float>;
template struct PositionBiasKernels<Cuda, bfloat16>;

}  // namespace moh
