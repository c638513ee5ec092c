#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// A run of elements of one parameter, small enough to be one piece of parallel work.
template <class T>
struct AdamWChunk {
  T* value = nullptr;
  const Acc<T>* grad = nullptr;
  Acc<T>* exp_avg = nullptr;
  Acc<T>* exp_avg_sq = nullptr;
  Acc<T>* master = nullptr;  ///< for bfloat16 only
  std::int64_t count = 0;
  Acc<T> keep = 1;  ///< 1 - lr * weight_decay
};

/// The numbers of a step, as the inner loop uses them.
template <class A>
struct AdamWCoefficients {
  A grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  A step_size;   ///< lr / (1 - beta1^k)
  A root_scale;  ///< 1 / sqrt(1 - beta2^k)
  A epsilon;
};

/// Updates all chunks; they do not overlap.
template <class Backend, class T>
struct AdamWKernels {
  static void update(const AdamWChunk<T>* chunks, std::int64_t num_chunks, AdamWCoefficients<Acc<T>> c);
};

}  // namespace moh
