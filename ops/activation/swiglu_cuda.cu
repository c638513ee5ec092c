#include <cmath>

#include "core/cuda/run.h"
#include "core/cuda/tag.h"
#include "ops/activation/sigmoid_cuda.h"
#include "ops/activation/swiglu_kernels.h"
#include "ops/cuda/divide.h"

namespace moh {

namespace {

/// Some consecutive elements of a row of y.
template <class T, int kCount>
struct Swiglu {
  const T* x;
  T* y;
  std::int64_t width;

  MOH_DEVICE void operator()(std::int64_t number) const {
    const Division at = divide(number, width / kCount);
    const T* gates = x + at.quotient * 2 * width + at.rest * kCount;
    const cuda::Run<T, kCount> gate = cuda::load_run<kCount>(gates),
                               up = cuda::load_run<kCount>(gates + width);
    cuda::Run<T, kCount> out;
    for (int j = 0; j < kCount; ++j) {
      const float g = gate.values[j];
      out.values[j] = g * sigmoid_pair(g).value * static_cast<float>(up.values[j]);
    }
    store_run(y + at.quotient * width + at.rest * kCount, out);
  }
};

/// The gradient of some consecutive gates, and of what they multiply. With g the gate and s = sigmoid(g):
/// dup = dy g s, dgate = dy up s (1 + g (1 - s)).
template <class T, int kCount>
struct SwigluGradient {
  const T *dy, *x;
  T* dx;
  std::int64_t width;

  MOH_DEVICE void operator()(std::int64_t number) const {
    const Division at = divide(number, width / kCount);
    const std::int64_t first = at.quotient * 2 * width + at.rest * kCount;
    const cuda::Run<T, kCount> gate = cuda::load_run<kCount>(x + first),
                               up = cuda::load_run<kCount>(x + first + width);
    const cuda::Run<T, kCount> given = cuda::load_run<kCount>(dy + at.quotient * width + at.rest * kCount);
    cuda::Run<T, kCount> dgate, dup;
    for (int j = 0; j < kCount; ++j) {
      const float g = gate.values[j], dyj = given.values[j];
      const SigmoidPair s = sigmoid_pair(g);
      dgate.values[j] = dyj * static_cast<float>(up.values[j]) * s.value * (1.0F + g * s.rest);
      dup.values[j] = dyj * g * s.value;
    }
    store_run(dx + first, dgate);
    store_run(dx + first + width, dup);
  }
};

}  // namespace

template <class Backend, class T>
void SwigluKernels<Backend, T>::forward(const T* x, T* y, Rows rows) {
  constexpr int kRun = cuda::kRunOf<T>;
  const std::int64_t count = rows.count * rows.width;
  if (rows.width % kRun == 0 && cuda::runs_fit(x, y)) {
    cuda::launch_each("swiglu", count / kRun, Swiglu<T, kRun>{x, y, rows.width});
  } else {
    cuda::launch_each("swiglu", count, Swiglu<T, 1>{x, y, rows.width});
  }
}

template <class Backend, class T>
void SwigluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, Rows rows) {
  constexpr int kRun = cuda::kRunOf<T>;
  const std::int64_t count = rows.count * rows.width;
  if (rows.width % kRun == 0 && cuda::runs_fit(dy, x, dx)) {
    cuda::launch_each("swiglu_gradient", count / kRun, SwigluGradient<T, kRun>{dy, x, dx, rows.width});
  } else {
    cuda::launch_each("swiglu_gradient", count, SwigluGradient<T, 1>{dy, x, dx, rows.width});
  }
}

template struct SwigluKernels<Cuda, float>;
template struct SwigluKernels<Cuda, bfloat16>;

}  // namespace moh
