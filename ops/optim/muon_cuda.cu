#include <cmath>

#include "core/cuda/tag.h"
#include "ops/cuda/block_sizes.h"
#include "ops/cuda/reduce.h"
#include "ops/device/kernel.h"
#include "ops/optim/muon_kernels.h"
#include "ops/optim/optimizer_chunk.h"

namespace moh {

namespace {

/// One block per chunk.
template <class G>
MOH_KERNEL(kBlockThreads)
void muon_momentum_kernel(const G* grad, float* exp_avg, float* u, float* squares, std::int64_t count,
                          const AdamWCoefficients<float>* coefficients, const std::int32_t* go) {
  const AdamWCoefficients<float> c = *coefficients;
  const bool keeps = go == nullptr || *go != 0;
  const std::int64_t first = device::block_x() * kOptimizerChunk;
  const std::int64_t last = first + kOptimizerChunk < count ? first + kOptimizerChunk : count;
  float sum = 0;
  for (std::int64_t i = first + device::thread_x(); i < last; i += device::block_threads()) {
    const float g = c.grad_scale * static_cast<float>(grad[i]);
    const float m = c.momentum * exp_avg[i] + c.one_minus_momentum * g;
    const float direction = c.momentum * m + c.one_minus_momentum * g;
    if (keeps) exp_avg[i] = m;
    u[i] = direction;
    sum += direction * direction;
  }
  sum = reduce_block(sum, Sum{}, device::shared_memory<float>());
  if (device::thread_x() == 0) squares[device::block_x()] = sum;
}

/// One block per chunk, each of which adds up the squares.
MOH_KERNEL(kBlockThreads)
void muon_normalise_kernel(float* u, const float* squares, std::int64_t parts, std::int64_t count) {
  float all = 0;
  for (std::int64_t i = device::thread_x(); i < parts; i += device::block_threads()) all += squares[i];
  all = reduce_block(all, Sum{}, device::shared_memory<float>());
  const float factor = 1.0F / (sqrtf(all) + 1e-7F);
  const std::int64_t first = device::block_x() * kOptimizerChunk;
  for (std::int64_t i = first + device::thread_x(); i < first + kOptimizerChunk && i < count;
       i += device::block_threads())
    u[i] *= factor;
}

template <class T>
struct Apply {
  T* value;
  float* master;
  const float* direction;
  float length;
  const AdamWRate<float>* rate;
  const std::int32_t* go;

  MOH_DEVICE void operator()(std::int64_t i) const {
    if (go != nullptr && *go == 0) return;
    const float before = master != nullptr ? master[i] : static_cast<float>(value[i]);
    const float after = before * rate->keep - rate->step_size * length * direction[i];
    if (master != nullptr) master[i] = after;
    value[i] = after;
  }
};

}  // namespace

template <class Backend, class T, class G>
void MuonKernels<Backend, T, G>::momentum(const G* grad, A* exp_avg, A* u, A* squares, std::int64_t count,
                                          const AdamWCoefficients<A>* coefficients, const std::int32_t* go) {
  cuda::launch("muon_momentum", muon_momentum_kernel<G>,
               {.blocks_x = muon_parts(count, kOptimizerChunk),
                .threads = kBlockThreads,
                .shared_bytes = kBlockSumBytes<float>},
               grad, exp_avg, u, squares, count, coefficients, go);
}

template <class Backend, class T, class G>
void MuonKernels<Backend, T, G>::normalise(A* u, const A* squares, std::int64_t count) {
  const std::int64_t parts = muon_parts(count, kOptimizerChunk);
  cuda::launch("muon_normalise", muon_normalise_kernel,
               {.blocks_x = parts, .threads = kBlockThreads, .shared_bytes = kBlockSumBytes<float>}, u,
               squares, parts, count);
}

template <class Backend, class T, class G>
void MuonKernels<Backend, T, G>::apply(T* value, A* master, const A* direction, A length, std::int64_t count,
                                       const AdamWRate<A>* rate, const std::int32_t* go) {
  cuda::launch_each("muon_apply", count, Apply<T>{value, master, direction, length, rate, go});
}

template struct MuonKernels<Cuda, float>;
template struct MuonKernels<Cuda, bfloat16>;
template struct MuonKernels<Cuda, bfloat16, bfloat16>;

}  // namespace moh
