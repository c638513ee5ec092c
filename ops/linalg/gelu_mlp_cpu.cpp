#include "core/cpu_isa.h"
#include "ops/activation/gelu_cpu.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"
#include "ops/linalg/gelu_mlp_kernels.h"

namespace moh {

template <class Backend, class T>
void GeluMlpKernels<Backend, T>::forward(const T* product, const T* b, T* h, T* y, Rows rows, GeluForm form) {
  using A = Acc<T>;
  if (h == nullptr) h = y;  // overwritten below
  const auto run = [=](auto gelu, auto bias) {
    parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* from = product + i * rows.width;
        T *hi = h + i * rows.width, *yi = y + i * rows.width;
        for_vectors_in<A>(0, rows.width, [=](auto at) {
          at.store(hi, at.load(from) + bias(at));
          at.store(yi, gelu(at.load(hi)).value);  // of the rounded pre-activation, as the backward pass
        });
      }
    });
  };
  with_gelu<T>(form, [=](auto gelu) {
    if (b == nullptr) return run(gelu, [](auto) { return Vec<A>{}; });
    run(gelu, [=](auto at) { return at.load(b); });
  });
}

template <class Backend, class T>
void GeluMlpKernels<Backend, T>::backward(T* dy, T* h, std::int64_t count, GeluForm form) {
  using A = Acc<T>;
  with_gelu<T>(form, [=](auto gelu) {
    for_each_vector<A>(count, [=](auto at) {
      const GeluAt<A> g = gelu(at.load(h));
      at.store(dy, at.load(dy) * g.slope);
      at.store(h, g.value);
    });
  });
}

MOH_MATRIX_KERNELS(GeluMlpKernels)

}  // namespace moh
