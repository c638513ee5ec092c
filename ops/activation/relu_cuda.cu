#include "ops/activation/relu_kernels.h"
#include "ops/cuda/map.h"

namespace moh {

namespace {

struct Relu {
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[1], std::int64_t) const {
    out[0] = in[0] < 0.0F ? 0.0F : in[0];
  }
};

/// From dy and y.
struct ReluGradient {
  MOH_DEVICE void operator()(const float (&in)[2], float (&out)[1], std::int64_t) const {
    out[0] = in[1] > 0.0F ? in[0] : 0.0F;
  }
};

}  // namespace

template <class Backend, class T>
void ReluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count) {
  launch_map<T, 1, 1>("relu", count, {{x}, {y}}, Relu{});
}

template <class Backend, class T>
void ReluKernels<Backend, T>::backward(const T* dy, const T* y, T* dx, std::int64_t count) {
  launch_map<T, 2, 1>("relu_gradient", count, {{dy, y}, {dx}}, ReluGradient{});
}

template struct ReluKernels<Cuda, float>;
template struct ReluKernels<Cuda, bfloat16>;

}  // namespace moh
