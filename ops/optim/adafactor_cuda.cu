#include <cmath>

#include "core/cuda/tag.h"
#include "ops/cuda/block_sizes.h"
#include "ops/cuda/reduce.h"
#include "ops/device/kernel.h"
#include "ops/optim/adafactor_kernels.h"

namespace moh {

namespace {

/// b v + (1 - b) (mean + 1e-30).
MOH_DEVICE float moved_mean(float v, float mean, const AdamWCoefficients<float>& c) {
  return (1.0F - c.factor_weight) * v + c.factor_weight * (mean + 1e-30F);
}

/// g^2 of element `at`.
template <class T, class G>
MOH_DEVICE float square_at(const AdafactorMatrix<T, G>& of, std::int64_t at,
                           const AdamWCoefficients<float>& c) {
  const float g = c.grad_scale * static_cast<float>(of.grad[at]);
  return g * g;
}

/// The factor of row `r` in u; 1 without a row.
template <class T, class G>
MOH_DEVICE float row_factor(const AdafactorMatrix<T, G>& of, std::int64_t r, const float* row_sum) {
  return of.row == nullptr ? 1.0F : sqrtf(*row_sum / static_cast<float>(of.rows) / of.row[r]);
}

/// One block for a warp's columns: its warps take turns with the rows.
template <class T, class G>
MOH_KERNEL(kBlockThreads)
void adafactor_columns_kernel(AdafactorMatrix<T, G> of, const AdamWCoefficients<float>* coefficients,
                              const std::int32_t* go) {
  if (go != nullptr && *go == 0) return;
  const AdamWCoefficients<float> c = *coefficients;
  const int lane = device::thread_x() % device::kWarp, warp = device::thread_x() / device::kWarp;
  const std::int64_t column = device::block_x() * device::kWarp + lane;
  float sum = 0;
  for (std::int64_t r = warp; column < of.columns && r < of.rows; r += kBlockWarps)
    sum += square_at(of, r * of.columns + column, c);
  float* const sums = device::shared_memory<float>();
  sums[device::thread_x()] = sum;
  device::sync_block();
  if (warp > 0 || column >= of.columns) return;
  for (int i = 1; i < kBlockWarps; ++i) sum += sums[i * device::kWarp + lane];
  of.column[column] = moved_mean(of.column[column], sum / static_cast<float>(of.rows), c);
}

/// One block per row.
template <class T, class G>
MOH_KERNEL(kBlockThreads)
void adafactor_rows_kernel(AdafactorMatrix<T, G> of, const AdamWCoefficients<float>* coefficients,
                           const std::int32_t* go) {
  if (go != nullptr && *go == 0) return;
  const AdamWCoefficients<float> c = *coefficients;
  const std::int64_t r = device::block_x();
  float sum = 0;
  for (std::int64_t i = device::thread_x(); i < of.columns; i += device::block_threads())
    sum += square_at(of, r * of.columns + i, c);
  sum = reduce_block(sum, Sum{}, device::shared_memory<float>());
  if (device::thread_x() == 0) of.row[r] = moved_mean(of.row[r], sum / static_cast<float>(of.columns), c);
}

/// One block.
MOH_KERNEL(kBlockThreads) void adafactor_sum_kernel(const float* numbers, std::int64_t count, float* total) {
  float sum = 0;
  for (std::int64_t i = device::thread_x(); i < count; i += device::block_threads()) sum += numbers[i];
  sum = reduce_block(sum, Sum{}, device::shared_memory<float>());
  if (device::thread_x() == 0) *total = sum;
}

/// One block per row.
template <class T, class G>
MOH_KERNEL(kBlockThreads)
void adafactor_squares_kernel(AdafactorMatrix<T, G> of, const float* row_sum, float* squares,
                              const AdamWCoefficients<float>* coefficients) {
  const std::int64_t r = device::block_x();
  const float factor = row_factor(of, r, row_sum) * coefficients->grad_scale;
  float sum = 0;
  for (std::int64_t i = device::thread_x(); i < of.columns; i += device::block_threads()) {
    const float u = factor * static_cast<float>(of.grad[r * of.columns + i]) / sqrtf(of.column[i]);
    sum += u * u;
  }
  sum = reduce_block(sum, Sum{}, device::shared_memory<float>());
  if (device::thread_x() == 0) squares[r] = sum;
}

/// One block per row.
template <class T, class G>
MOH_KERNEL(kBlockThreads)
void adafactor_apply_kernel(AdafactorMatrix<T, G> of, const float* row_sum, const float* square_sum,
                            const AdamWCoefficients<float>* coefficients, const AdamWRate<float>* rate,
                            const std::int32_t* go) {
  if (go != nullptr && *go == 0) return;
  const std::int64_t r = device::block_x();
  const float mean_square = *square_sum / static_cast<float>(of.rows) / static_cast<float>(of.columns);
  const float rms = sqrtf(mean_square), step = rate->step_size / (rms > 1.0F ? rms : 1.0F);
  const float factor = row_factor(of, r, row_sum) * coefficients->grad_scale * step;
  for (std::int64_t i = device::thread_x(); i < of.columns; i += device::block_threads()) {
    const std::int64_t at = r * of.columns + i;
    const float move = factor * static_cast<float>(of.grad[at]) / sqrtf(of.column[i]);
    const float before = of.master != nullptr ? of.master[at] : static_cast<float>(of.value[at]);
    const float after = before * rate->keep - move;
    if (of.master != nullptr) of.master[at] = after;
    of.value[at] = after;
  }
}

}  // namespace

template <class Backend, class T, class G>
void AdafactorKernels<Backend, T, G>::means(const Matrix& of, const AdamWCoefficients<A>* coefficients,
                                            const std::int32_t* go) {
  cuda::launch("adafactor_columns", adafactor_columns_kernel<T, G>,
               {.blocks_x = (of.columns + device::kWarp - 1) / device::kWarp,
                .threads = kBlockThreads,
                .shared_bytes = kBlockThreads * sizeof(float)},
               of, coefficients, go);
  if (of.row == nullptr) return;
  cuda::launch("adafactor_rows", adafactor_rows_kernel<T, G>,
               {.blocks_x = of.rows, .threads = kBlockThreads, .shared_bytes = kBlockSumBytes<float>}, of,
               coefficients, go);
}

template <class Backend, class T, class G>
void AdafactorKernels<Backend, T, G>::sum(const A* numbers, std::int64_t count, A* total) {
  cuda::launch("adafactor_sum", adafactor_sum_kernel,
               {.threads = kBlockThreads, .shared_bytes = kBlockSumBytes<float>}, numbers, count, total);
}

template <class Backend, class T, class G>
void AdafactorKernels<Backend, T, G>::squares(const Matrix& of, const A* row_sum, A* squares,
                                              const AdamWCoefficients<A>* coefficients) {
  cuda::launch("adafactor_squares", adafactor_squares_kernel<T, G>,
               {.blocks_x = of.rows, .threads = kBlockThreads, .shared_bytes = kBlockSumBytes<float>}, of,
               row_sum, squares, coefficients);
}

template <class Backend, class T, class G>
void AdafactorKernels<Backend, T, G>::apply(const Matrix& of, const A* row_sum, const A* square_sum,
                                            const AdamWCoefficients<A>* coefficients,
                                            const AdamWRate<A>* rate, const std::int32_t* go) {
  cuda::launch("adafactor_apply", adafactor_apply_kernel<T, G>,
               {.blocks_x = of.rows, .threads = kBlockThreads}, of, row_sum, square_sum, coefficients, rate,
               go);
}

template struct AdafactorKernels<Cuda, float>;
template struct AdafactorKernels<Cuda, bfloat16>;
template struct AdafactorKernels<Cuda, bfloat16, bfloat16>;

}  // namespace moh
