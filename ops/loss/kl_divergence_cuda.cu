#include <cfloat>
#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/divisor_cuda.h"
#include "ops/loss/kl_divergence_kernels.h"

namespace moh {

namespace {

template <class T>
struct KlForward {
  RowAccess<const T> logits, teacher;
  const std::int64_t* targets;
  float inverse_temperature;
  float* losses;
  SoftenedRows<float> saved;
};

/// One block per row; five reductions, each with shared memory of its own.
template <class T>
MOH_KERNEL(kMostRowThreads)
void kl_divergence_kernel(KlForward<T> k) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x();
  const bool ignored = k.targets != nullptr && k.targets[i] == kIgnoredTarget;
  const RowAccess<const T> row = k.logits.at(i), teacher_row = k.teacher.at(i);
  auto* const space = device::shared_memory<ReduceSpace<float>>();
  ExpSum q{}, p{};
  float loss = 0;
  if (!ignored) {
    q = exp_sum_of(row, space, k.inverse_temperature, -FLT_MAX);
    p = exp_sum_of(teacher_row, space + 2, k.inverse_temperature, -FLT_MAX);
    const float offset = logf(q.sum) - logf(p.sum);
    each_piece<T>(row.width, [&](std::int64_t first) {
      float s[kPack], t[kPack];
      row.load(first, s);
      teacher_row.load(first, t);
      for (int j = 0; j < kPack && first + j < row.width; ++j) {
        const float exponent = (t[j] - p.top) * k.inverse_temperature, weight = expf(exponent);
        if (weight != 0) loss += weight * (exponent - (s[j] - q.top) * k.inverse_temperature + offset);
      }
    });
    loss = reduce_block(loss, Sum{}, space[4].values) / p.sum;
  }
  if (device::thread_x() > 0) return;
  k.losses[i] = loss;
  k.saved.maxima[i] = q.top;
  k.saved.exp_sums[i] = q.sum;
  k.saved.teacher_maxima[i] = p.top;
  k.saved.teacher_exp_sums[i] = p.sum;
}

template <class T>
struct KlGradient {
  const float* dloss;
  Divisor divisor;
  RowAccess<const T> logits, teacher;
  const std::int64_t* targets;
  float inverse_temperature;
  SoftenedRows<float> saved;
  RowAccess<T> dlogits;  ///< may be the teacher's: each element is read before it is written, by one thread
};

/// One block per row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void kl_divergence_gradient_kernel(KlGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x();
  const bool ignored = g.targets != nullptr && g.targets[i] == kIgnoredTarget;
  const auto factor = static_cast<float>(static_cast<double>(*g.dloss) / number_of(g.divisor));
  const float of_q = ignored ? 0.0F : factor / g.saved.exp_sums[i];
  const float of_p = ignored ? 0.0F : factor / g.saved.teacher_exp_sums[i];
  const float top = g.saved.maxima[i], teacher_top = g.saved.teacher_maxima[i];
  each_piece<T>(g.logits.width, [&](std::int64_t first) {
    float s[kPack], t[kPack];
    g.logits.at(i).load(first, s);
    g.teacher.at(i).load(first, t);
    for (int j = 0; j < kPack; ++j) {
      const float q = of_q * expf((s[j] - top) * g.inverse_temperature);
      s[j] = ignored ? 0.0F : q - of_p * expf((t[j] - teacher_top) * g.inverse_temperature);
    }
    g.dlogits.at(i).store(first, s);
  });
}

}  // namespace

template <class Backend, class T>
void KlDivergenceKernels<Backend, T>::forward(const T* logits, const T* teacher, const std::int64_t* targets,
                                              double temperature, Acc<T>* losses,
                                              const SoftenedRows<Acc<T>>& saved, Rows rows) {
  const KlForward<T> forward{rows_at(logits, rows.width),
                             rows_at(teacher, rows.width),
                             targets,
                             static_cast<float>(1 / temperature),
                             losses,
                             saved};
  cuda::launch("kl_divergence", kl_divergence_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(rows.width),
                .shared_bytes = 5 * sizeof(ReduceSpace<float>)},
               forward);
}

template <class Backend, class T>
void KlDivergenceKernels<Backend, T>::backward(const Acc<T>* dloss, Divisor divisor, const T* logits,
                                               const T* teacher, const std::int64_t* targets,
                                               double temperature, const SoftenedRows<Acc<T>>& saved,
                                               T* dlogits, Rows rows) {
  const KlGradient<T> gradient{dloss,
                               divisor,
                               rows_at(logits, rows.width),
                               rows_at(teacher, rows.width),
                               targets,
                               static_cast<float>(1 / temperature),
                               saved,
                               rows_at(dlogits, rows.width)};
  cuda::launch("kl_divergence_gradient", kl_divergence_gradient_kernel<T>,
               {.blocks_x = rows.count, .threads = row_threads<T>(rows.width)}, gradient);
}

template struct KlDivergenceKernels<Cuda, float>;
template struct KlDivergenceKernels<Cuda, bfloat16>;

}  // namespace moh
