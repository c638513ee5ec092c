#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"
#include "ops/optim/adafactor_kernels.h"
#include "ops/optim/optimizer_chunk.h"

namespace moh {

namespace {

/// Rows of which a thread takes as many as have about the elements of a chunk.
inline std::int64_t rows_at_once(std::int64_t columns) {
  return std::max<std::int64_t>(1, kOptimizerChunk / columns);
}

/// b v + (1 - b) (mean + 1e-30), from the sum of the squared gradients.
template <class V, class A = std::remove_cvref_t<decltype(V{}[0])>>
[[gnu::always_inline]] inline V moved_mean(V v, V sum, A count, const AdamWCoefficients<A>& c) {
  return (A(1) - c.factor_weight) * v + c.factor_weight * (sum / count + A(1e-30));
}

/// The factor of a row in u: the root of mean(row) / row[r]; 1 without a row.
template <class T, class G, class A = Acc<T>>
[[gnu::always_inline]] inline A row_factor(const AdafactorMatrix<T, G>& of, std::int64_t r,
                                           const A* row_sum) {
  return of.row == nullptr ? A(1) : std::sqrt(*row_sum / static_cast<A>(of.rows) / of.row[r]);
}

/// u of elements `at` of a row that begins at `grad`.
template <class At, class G, class A>
[[gnu::always_inline]] inline Vec<A> direction(const At& at, const G* grad, const A* column, A of_row,
                                               const AdamWCoefficients<A>& c) {
  const Vec<A> one = Vec<A>{} + A(1), v = at.load_cached(column);
  // Lanes that belong to no element have v = 0.
  const Vec<A> root = sqrt_lanes<A>(v > Vec<A>{} ? v : one);
  return at.masked(Vec<A>(of_row * (c.grad_scale * at.load(grad)) / root));
}

/// The sums of the squares of columns [begin, end), of all rows in order.
template <class T, class G, class A = Acc<T>>
[[gnu::always_inline]] inline void update_columns(const AdafactorMatrix<T, G>& of, std::int64_t begin,
                                                  std::int64_t end, const AdamWCoefficients<A>& c) {
  for_vectors_in<A>(begin, end, [&](auto at) {
    Vec<A> sum{};
    for (std::int64_t r = 0; r < of.rows; ++r) {
      const Vec<A> g = c.grad_scale * at.load_cached(of.grad + r * of.columns);
      sum += g * g;
    }
    at.store(of.column, moved_mean(at.load_cached(of.column), sum, static_cast<A>(of.rows), c));
  });
}

}  // namespace

template <class Backend, class T, class G>
void AdafactorKernels<Backend, T, G>::means(const Matrix& of, const AdamWCoefficients<A>* coefficients,
                                            const std::int32_t* go) {
  if (go != nullptr && *go == 0) return;
  const AdamWCoefficients<A> c = *coefficients;
  constexpr std::int64_t kColumns = 256;
  const std::int64_t at_once = of.row == nullptr ? kOptimizerChunk : kColumns;
  parallel_for(of.columns, at_once,
               [&](std::int64_t begin, std::int64_t end) { update_columns(of, begin, end, c); });
  if (of.row == nullptr) return;
  parallel_for(of.rows, rows_at_once(of.columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      Vec<A> sum{};
      for_vectors_in<A>(0, of.columns, [&](auto at) {
        const Vec<A> g = c.grad_scale * at.load(of.grad + r * of.columns);
        sum += g * g;
      });
      const A mean = sum_lanes<A>(sum) / static_cast<A>(of.columns) + A(1e-30);
      of.row[r] = (A(1) - c.factor_weight) * of.row[r] + c.factor_weight * mean;
    }
  });
}

template <class Backend, class T, class G>
void AdafactorKernels<Backend, T, G>::sum(const A* numbers, std::int64_t count, A* total) {
  A all = 0;
  for (std::int64_t i = 0; i < count; ++i) all += numbers[i];
  *total = all;
}

template <class Backend, class T, class G>
void AdafactorKernels<Backend, T, G>::squares(const Matrix& of, const A* row_sum, A* squares,
                                              const AdamWCoefficients<A>* coefficients) {
  const AdamWCoefficients<A> c = *coefficients;
  parallel_for(of.rows, rows_at_once(of.columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const A of_row = row_factor(of, r, row_sum);
      Vec<A> sum{};
      for_vectors_in<A>(0, of.columns, [&](auto at) {
        const Vec<A> u = direction(at, of.grad + r * of.columns, of.column, of_row, c);
        sum += u * u;
      });
      squares[r] = sum_lanes<A>(sum);
    }
  });
}

template <class Backend, class T, class G>
void AdafactorKernels<Backend, T, G>::apply(const Matrix& of, const A* row_sum, const A* square_sum,
                                            const AdamWCoefficients<A>* coefficients,
                                            const AdamWRate<A>* rate, const std::int32_t* go) {
  if (go != nullptr && *go == 0) return;
  const AdamWCoefficients<A> c = *coefficients;
  const A mean_square = *square_sum / static_cast<A>(of.rows) / static_cast<A>(of.columns);
  const A keep = rate->keep, step = rate->step_size / std::max(A(1), std::sqrt(mean_square));
  parallel_for(of.rows, rows_at_once(of.columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const A of_row = row_factor(of, r, row_sum);
      const std::int64_t first = r * of.columns;
      for_vectors_in<A>(0, of.columns, [&](auto at) {
        const Vec<A> move = step * direction(at, of.grad + first, of.column, of_row, c);
        if constexpr (std::is_same_v<T, bfloat16>) {
          const Vec<A> p = at.load(of.master + first) * keep - move;
          at.store(of.master + first, p);
          at.store(of.value + first, p);
        } else {
          at.store(of.value + first, at.load(of.value + first) * keep - move);
        }
      });
    }
  });
}

template struct AdafactorKernels<cpu::MOH_ISA, float>;
template struct AdafactorKernels<cpu::MOH_ISA, bfloat16>;
template struct AdafactorKernels<cpu::MOH_ISA, bfloat16, bfloat16>;
template struct AdafactorKernels<cpu::MOH_ISA, double>;

}  // namespace moh
