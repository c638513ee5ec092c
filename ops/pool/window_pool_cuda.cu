#include "ops/pool/window_pool_kernels.h"
#include "ops/pool/windows_cuda.h"

namespace moh {

template <class Backend, class T>
void WindowPoolKernels<Backend, T>::max(const T* x, T* y, const WindowPoolShape& s) {
  cuda::launch_each("max_pool", window_pieces<T>(s), pool_windows<OfWindow::kMax>(x, y, s));
}

template <class Backend, class T>
void WindowPoolKernels<Backend, T>::mean(const T* x, T* y, const WindowPoolShape& s) {
  cuda::launch_each("mean_pool", window_pieces<T>(s), pool_windows<OfWindow::kMean>(x, y, s));
}

template struct WindowPoolKernels<Cuda, float>;
template struct WindowPoolKernels<Cuda, bfloat16>;

}  // namespace moh
