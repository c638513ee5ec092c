#pragma once

#include <cstdint>

#include "ops/optim/adamw_kernels.h"

namespace moh {

/// Sums of squares of the chunks of `count` elements.
inline std::int64_t muon_parts(std::int64_t count, std::int64_t chunk) {
  return (count + chunk - 1) / chunk;
}

/// Elementwise parts of muon() over `count` elements of a matrix with values T and a gradient G. If `go` is
/// not null and *go is 0, `momentum` and `apply` change neither state nor values.
template <class Backend, class T, class G = Acc<T>>
struct MuonKernels {
  using A = Acc<T>;

  /// exp_avg = m, u = u; squares[i] = the sum of the squares of u in chunk i of kOptimizerChunk elements.
  static void momentum(const G* grad, A* exp_avg, A* u, A* squares, std::int64_t count,
                       const AdamWCoefficients<A>* coefficients, const std::int32_t* go);
  /// u = u / (|u| + 1e-7).
  static void normalise(A* u, const A* squares, std::int64_t count);
  /// The update by `direction`, times `length`; master is null for a T that has none.
  static void apply(T* value, A* master, const A* direction, A length, std::int64_t count,
                    const AdamWRate<A>* rate, const std::int32_t* go);
};

}  // namespace moh
