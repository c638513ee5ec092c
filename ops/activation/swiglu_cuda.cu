#include <cmath>

#include "ops/activation/sigmoid_cuda.h"
#include "ops/activation/swiglu_kernels.h"
#include "ops/cuda/map.h"

namespace moh {

namespace {

struct Swiglu {
  MOH_DEVICE void operator()(const float (&in)[2], float (&out)[1], std::int64_t) const {
    const float gate = in[0], up = in[1];
    out[0] = gate * sigmoid_pair(gate).value * up;
  }
};

// With g the gate and s = sigmoid(g): dup = dy g s, dgate = dy up s (1 + g (1 - s)).
struct SwigluGradient {
  MOH_DEVICE void operator()(const float (&in)[3], float (&out)[2], std::int64_t) const {
    const float dy = in[0], gate = in[1], up = in[2];
    const SigmoidPair s = sigmoid_pair(gate);
    out[0] = dy * up * s.value * (1.0F + gate * s.rest);
    out[1] = dy * gate * s.value;
  }
};

}  // namespace

template <class Backend, class T>
void SwigluKernels<Backend, T>::forward(const T* gate, const T* up, T* y, std::int64_t count) {
  launch_map<T, 2, 1>("swiglu", count, {{gate, up}, {y}}, Swiglu{});
}

template <class Backend, class T>
void SwigluKernels<Backend, T>::backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup,
                                         std::int64_t count) {
  launch_map<T, 3, 2>("swiglu_gradient", count, {{dy, gate, up}, {dgate, dup}}, SwigluGradient{});
}

template struct SwigluKernels<Cuda, float>;
template struct SwigluKernels<Cuda, bfloat16>;

}  // namespace moh
