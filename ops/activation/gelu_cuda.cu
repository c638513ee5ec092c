#include <cmath>

#include "ops/activation/gelu_kernels.h"
#include "ops/activation/sigmoid_cuda.h"
#include "ops/cuda/map.h"

namespace moh {

namespace {

// (1 + tanh(u)) / 2 is the logistic function s(2u), so the tanh form is y = x s(2u) with 2u = ax + bx^3:
// a = 2 sqrt(2 / pi), b = 0.044715 a.
constexpr float kLinear = 1.5957691216057308F, kCubic = kLinear * 0.044715F;
constexpr float kRootOfHalf = 0.70710678118654752F, kDensity = 0.39894228040143268F;

/// P(Z <= x) for a standard normal Z, to full relative accuracy in both tails.
MOH_DEVICE float cumulative_normal(float x) {
  return 0.5F * erfcf(-x * kRootOfHalf);
}

MOH_DEVICE float twice_u(float x) {
  return x * (kLinear + kCubic * x * x);
}

struct ExactGelu {
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[1], std::int64_t) const {
    out[0] = in[0] * cumulative_normal(in[0]);
  }
};

struct TanhGelu {
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[1], std::int64_t) const {
    out[0] = in[0] * sigmoid_pair(twice_u(in[0])).value;
  }
};

// dy/dx = P(Z <= x) + x times the density at x.
struct ExactGeluGradient {
  MOH_DEVICE void operator()(const float (&in)[2], float (&out)[1], std::int64_t) const {
    const float dy = in[0], x = in[1];
    out[0] = dy * (cumulative_normal(x) + x * kDensity * expf(-0.5F * x * x));
  }
};

// dy/dx = s + x s (1 - s) d(2u)/dx.
struct TanhGeluGradient {
  MOH_DEVICE void operator()(const float (&in)[2], float (&out)[1], std::int64_t) const {
    const float dy = in[0], x = in[1];
    const SigmoidPair s = sigmoid_pair(twice_u(x));
    // Where s (1 - s) has become 0, x^3 may be infinite: the bound keeps their product at 0.
    const float bounded = fminf(fmaxf(x, -100.0F), 100.0F);
    out[0] = dy * (s.value + s.value * s.rest * bounded * (kLinear + 3 * kCubic * bounded * bounded));
  }
};

}  // namespace

template <class Backend, class T>
void GeluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count, GeluForm form) {
  if (form == GeluForm::kExact) {
    launch_map<T, 1, 1>("gelu", count, {{x}, {y}}, ExactGelu{});
  } else {
    launch_map<T, 1, 1>("gelu_tanh", count, {{x}, {y}}, TanhGelu{});
  }
}

template <class Backend, class T>
void GeluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, std::int64_t count, GeluForm form) {
  if (form == GeluForm::kExact) {
    launch_map<T, 2, 1>("gelu_gradient", count, {{dy, x}, {dx}}, ExactGeluGradient{});
  } else {
    launch_map<T, 2, 1>("gelu_tanh_gradient", count, {{dy, x}, {dx}}, TanhGeluGradient{});
  }
}

template struct GeluKernels<Cuda, float>;
template struct GeluKernels<Cuda, bfloat16>;

}  // namespace moh
