#include <cmath>

#include "ops/activation/sigmoid_cuda.h"
#include "ops/activation/silu_kernels.h"
#include "ops/cuda/map.h"

namespace moh {

namespace {

struct Silu {
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[1], std::int64_t) const {
    out[0] = in[0] * sigmoid_pair(in[0]).value;
  }
};

// With s = sigmoid(x): dx = dy s (1 + x (1 - s)).
struct SiluGradient {
  MOH_DEVICE void operator()(const float (&in)[2], float (&out)[1], std::int64_t) const {
    const float dy = in[0], x = in[1];
    const SigmoidPair s = sigmoid_pair(x);
    out[0] = dy * s.value * (1.0F + x * s.rest);
  }
};

}  // namespace

template <class Backend, class T>
void SiluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count) {
  launch_map<T, 1, 1>("silu", count, {{x}, {y}}, Silu{});
}

template <class Backend, class T>
void SiluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, std::int64_t count) {
  launch_map<T, 2, 1>("silu_gradient", count, {{dy, x}, {dx}}, SiluGradient{});
}

template struct SiluKernels<Cuda, float>;
template struct SiluKernels<Cuda, bfloat16>;

}  // namespace moh
