#include <limits>

#include "ops/pool/window_pool_kernels.h"
#include "ops/pool/windows_cpu.h"

namespace moh {

template <class Backend, class T>
void WindowPoolKernels<Backend, T>::max(const T* x, T* y, const WindowPoolShape& shape) {
  using A = Acc<T>;
  over_windows(
      x, y, shape, -std::numeric_limits<A>::infinity(),
      // A NaN differs from itself.
      [](A most, A value) { return value > most || value != value ? value : most; },  // NOLINT
      [](A most, A /*count*/) { return most; });
}

template <class Backend, class T>
void WindowPoolKernels<Backend, T>::mean(const T* x, T* y, const WindowPoolShape& shape) {
  using A = Acc<T>;
  over_windows(
      x, y, shape, A(0), [](A sum, A value) { return sum + value; },
      [](A sum, A count) { return sum / count; });
}

template struct WindowPoolKernels<cpu::MOH_ISA, float>;
template struct WindowPoolKernels<cpu::MOH_ISA, bfloat16>;
template struct WindowPoolKernels<cpu::MOH_ISA, double>;

}  // namespace moh
