#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/cpu/row_exp.h"
#include "ops/moh/router_z_loss_kernels.h"

namespace moh {

template <class Backend, class T>
void RouterZLossKernels<Backend, T>::forward(const T* logits, Acc<T>* log_sums, Acc<T>* loss, Rows rows) {
  using A = Acc<T>;
  sum_over_rows<A>(rows.count, 1, loss, [=](std::int64_t n, A* sum) {
    const ExpSum<A> exp_sum = exp_sum_of(logits + n * rows.width, rows.width);
    log_sums[n] = static_cast<A>(exp_sum.top + std::log(exp_sum.sum));
    *sum += log_sums[n] * log_sums[n];
  });
  if (rows.count > 0) *loss /= A(rows.count);
}

// d loss / d z_e = 2 / N ln(sum exp z) softmax(z)_e.
template <class Backend, class T>
void RouterZLossKernels<Backend, T>::backward(const Acc<T>* dloss, const T* logits, const Acc<T>* log_sums,
                                              T* dlogits, Rows rows) {
  using A = Acc<T>;
  const A factor = rows.count > 0 ? A(2) * *dloss / A(rows.count) : A(0);
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const T* z = logits + n * rows.width;
      for (std::int64_t e = 0; e < rows.width; ++e) {
        dlogits[n * rows.width + e] = static_cast<T>(factor * log_sums[n] * std::exp(A(z[e]) - log_sums[n]));
      }
    }
  });
}

template struct RouterZLossKernels<cpu::MOH_ISA, float>;
template struct RouterZLossKernels<cpu::MOH_ISA, bfloat16>;
template struct RouterZLossKernels<cpu::MOH_ISA, double>;

}  // namespace moh
