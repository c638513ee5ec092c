#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/reduce.h"
#include "ops/cpu/row_exp.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/kl_divergence_kernels.h"

namespace moh {

namespace {

/// The exponents of a softmax at a temperature. A row of -inf alone has the shift 0, so that no difference
/// becomes NaN.
template <class A>
struct Softened {
  A top, inverse_temperature;

  [[gnu::always_inline]] inline Vec<A> exponents(Vec<A> x) const { return (x - top) * inverse_temperature; }
};

template <class T>
[[gnu::always_inline]] inline Softened<Acc<T>> softened(const T* row, std::int64_t width,
                                                        double temperature) {
  return {std::max(largest_of(row, width), std::numeric_limits<Acc<T>>::lowest()),
          static_cast<Acc<T>>(1 / temperature)};
}

/// Blocks are summed in A, their sums in double: exact enough for the rows of a vocabulary.
constexpr std::int64_t kBlock = 1024;

template <class T>
[[gnu::always_inline]] inline double exp_sum(const T* row, std::int64_t width, Softened<Acc<T>> of) {
  using A = Acc<T>;
  double sum = 0;
  for (std::int64_t begin = 0; begin < width; begin += kBlock) {
    Vec<A> block{};
    for_vectors_in<A>(begin, std::min(width, begin + kBlock),
                      [&](auto at) { block += at.masked(exp_term(of.exponents(at.load(row)))); });
    sum += static_cast<double>(sum_lanes<A>(block));
  }
  return sum;
}

/// sum_j p_j ((t_j - s_j) + offset), with t and s the exponents of the teacher and of the student, p =
/// e^t_j / teacher_sum, and offset the difference of their log-sums: KL(p || q). Masked elements (-inf),
/// whose p is 0, add nothing.
template <class T>
[[gnu::always_inline]] inline double divergence(const T* row, Softened<Acc<T>> student, const T* teacher_row,
                                                Softened<Acc<T>> teacher, double offset, double teacher_sum,
                                                std::int64_t width) {
  using A = Acc<T>;
  double sum = 0;
  const A add = static_cast<A>(offset);
  for (std::int64_t begin = 0; begin < width; begin += kBlock) {
    Vec<A> block{};
    for_vectors_in<A>(begin, std::min(width, begin + kBlock), [&](auto at) {
      const Vec<A> t = teacher.exponents(at.load(teacher_row)), p = exp_term(t);
      const Vec<A> term = p * (t - student.exponents(at.load(row)) + add);
      block += at.masked(p == Vec<A>{} ? Vec<A>{} : term);
    });
    sum += static_cast<double>(sum_lanes<A>(block));
  }
  return sum / teacher_sum;
}

}  // namespace

template <class Backend, class T>
void KlDivergenceKernels<Backend, T>::forward(const T* logits, const T* teacher, const std::int64_t* targets,
                                              double temperature, Acc<T>* losses,
                                              const SoftenedRows<Acc<T>>& saved, Rows rows) {
  using A = Acc<T>;
  const SoftenedRows<A> to = saved;
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      losses[i] = to.maxima[i] = to.exp_sums[i] = to.teacher_maxima[i] = to.teacher_exp_sums[i] = A(0);
      if (targets != nullptr && targets[i] == kIgnoredTarget) continue;
      const T *row = logits + i * rows.width, *teacher_row = teacher + i * rows.width;
      const Softened<A> q = softened(row, rows.width, temperature),
                        p = softened(teacher_row, rows.width, temperature);
      const double sum = exp_sum(row, rows.width, q), teacher_sum = exp_sum(teacher_row, rows.width, p);
      losses[i] = static_cast<A>(
          divergence(row, q, teacher_row, p, std::log(sum) - std::log(teacher_sum), teacher_sum, rows.width));
      to.maxima[i] = q.top;
      to.exp_sums[i] = static_cast<A>(sum);
      to.teacher_maxima[i] = p.top;
      to.teacher_exp_sums[i] = static_cast<A>(teacher_sum);
    }
  });
}

template <class Backend, class T>
void KlDivergenceKernels<Backend, T>::backward(const Acc<T>* dloss, Divisor divisor, const T* logits,
                                               const T* teacher, const std::int64_t* targets,
                                               double temperature, const SoftenedRows<Acc<T>>& saved,
                                               T* dlogits, Rows rows) {
  using A = Acc<T>;
  const double scaled = static_cast<double>(*dloss) * (divisor.over / divisor.value);
  const A inverse = static_cast<A>(1 / temperature);
  const SoftenedRows<A> from = saved;
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T *row = logits + i * rows.width, *teacher_row = teacher + i * rows.width;
      T* const to = dlogits + i * rows.width;
      if (targets != nullptr && targets[i] == kIgnoredTarget) {
        for (std::int64_t j = 0; j < rows.width; ++j) to[j] = A(0);
        continue;
      }
      const Softened<A> q{from.maxima[i], inverse}, p{from.teacher_maxima[i], inverse};
      const A of_q = static_cast<A>(scaled / static_cast<double>(from.exp_sums[i]));
      const A of_p = static_cast<A>(scaled / static_cast<double>(from.teacher_exp_sums[i]));
      for_vectors_in<A>(0, rows.width, [=](auto at) {
        at.store(to, of_q * exp_of_negative(q.exponents(at.load(row))) -
                         of_p * exp_of_negative(p.exponents(at.load(teacher_row))));
      });
    }
  });
}

template struct KlDivergenceKernels<cpu::MOH_ISA, float>;
template struct KlDivergenceKernels<cpu::MOH_ISA, bfloat16>;
template struct KlDivergenceKernels<cpu::MOH_ISA, double>;

}  // namespace moh
