#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/cpu/elementwise.h"
#include "ops/optim/ema_kernels.h"

namespace moh {

template <class Backend, class T>
void EmaKernels<Backend, T>::update(const EmaChunk<T>* chunks, std::int64_t num_chunks, Acc<T> rate,
                                    const double* rate_at, const double* go) {
  if (go != nullptr && *go == 0) return;
  using A = Acc<T>;
  if (rate_at != nullptr) rate = static_cast<A>(*rate_at);
  parallel_for(num_chunks, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      const auto [average, value, count] = chunks[chunk];
      for_vectors_in<A>(0, count, [=, average = average, value = value](auto at) {
        const Vec<A> before = at.load(average);
        at.store(average, before + rate * (at.load(value) - before));
      });
    }
  });
}

template struct EmaKernels<cpu::MOH_ISA, float>;
template struct EmaKernels<cpu::MOH_ISA, bfloat16>;
template struct EmaKernels<cpu::MOH_ISA, double>;

}  // namespace moh
