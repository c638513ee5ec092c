#pragma once

#include <cstdint>

#include "ops/optim/adamw_kernels.h"

namespace moh {

/// A matrix [rows, columns] that adafactor() updates, or another tensor as one row.
template <class T, class G>
struct AdafactorMatrix {
  using A = Acc<T>;

  T* value = nullptr;
  A* master = nullptr;  ///< for bfloat16 only
  const G* grad = nullptr;
  A* row = nullptr;  ///< [rows]; none: `column` is not a mean of rows, but of each element
  A* column = nullptr;
  std::int64_t rows = 0, columns = 0;
};

/// Parts of adafactor(). If `go` is not null and *go is 0, `means` and `apply` change neither state nor
/// values.
template <class Backend, class T, class G = Acc<T>>
struct AdafactorKernels {
  using A = Acc<T>;
  using Matrix = AdafactorMatrix<T, G>;

  /// Updates `row`, if there is one, and `column`.
  static void means(const Matrix& of, const AdamWCoefficients<A>* coefficients, const std::int32_t* go);
  /// total = the sum of `count` numbers.
  static void sum(const A* numbers, std::int64_t count, A* total);
  /// squares[r] = the sum of u^2 of row r; row_sum is the sum of `row`, not read without one.
  static void squares(const Matrix& of, const A* row_sum, A* squares,
                      const AdamWCoefficients<A>* coefficients);
  /// The update; square_sum is the sum of all u^2.
  static void apply(const Matrix& of, const A* row_sum, const A* square_sum,
                    const AdamWCoefficients<A>* coefficients, const AdamWRate<A>* rate,
                    const std::int32_t* go);
};

}  // namespace moh
