#include <algorithm>

#include "core/parallel.h"
#include "ops/cpu/elementwise.h"
#include "ops/tokens/add_positions_kernels.h"

namespace moh {

template <class Backend, class T>
void AddPositionsKernels<Backend, T>::forward(const T* x, const T* token, const T* positions, T* y,
                                              TokenSizes s) {
  using A = Acc<T>;
  parallel_for(s.images, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      T* const to = y + b * s.image();
      const T* const from = x + b * s.body;
      for (std::int64_t i = 0; i < s.prefix; ++i) to[i] = A(token[i]) + A(positions[i]);
#pragma omp simd
      for (std::int64_t i = 0; i < s.body; ++i) to[s.prefix + i] = A(from[i]) + A(positions[s.prefix + i]);
    }
  });
}

template <class Backend, class T>
void AddPositionsKernels<Backend, T>::backward(const T* dy, T* dx, Acc<T>* dpositions, TokenSizes s) {
  using A = Acc<T>;
  for_each_vector<A>(s.image(), [=](auto at) {
    Vec<A> sum{};
    for (std::int64_t b = 0; b < s.images; ++b) sum += at.load(dy + b * s.image());
    at.store(dpositions, sum);
  });
  if (dx != nullptr) take(dy, dx, s.images, s.image(), s.prefix, s.body);
}

template <class Backend, class T>
void AddPositionsKernels<Backend, T>::take(const T* x, T* y, std::int64_t images, std::int64_t image,
                                           std::int64_t first, std::int64_t width) {
  parallel_for(images, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) std::copy_n(x + b * image + first, width, y + b * width);
  });
}

template <class Backend, class T>
void AddPositionsKernels<Backend, T>::put(const T* dy, T* dx, std::int64_t images, std::int64_t image,
                                          std::int64_t first, std::int64_t width) {
  parallel_for(images, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::fill_n(dx + b * image, image, T(0.0F));
      std::copy_n(dy + b * width, width, dx + b * image + first);
    }
  });
}

template struct AddPositionsKernels<cpu::MOH_ISA, float>;
template struct AddPositionsKernels<cpu::MOH_ISA, bfloat16>;
template struct AddPositionsKernels<cpu::MOH_ISA, double>;

}  // namespace moh
