#include "ops/activation/gelu_cuda.h"
#include "ops/activation/gelu_kernels.h"
#include "ops/cuda/map.h"

namespace moh {

namespace {

template <class Gelu>
struct Value {
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[1], std::int64_t) const {
    out[0] = Gelu::at(in[0]).value;
  }
};

template <class Gelu>
struct Gradient {
  MOH_DEVICE void operator()(const float (&in)[2], float (&out)[1], std::int64_t) const {
    out[0] = in[0] * Gelu::at(in[1]).slope;
  }
};

}  // namespace

template <class Backend, class T>
void GeluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count, GeluForm form) {
  if (form == GeluForm::kExact) {
    launch_map<T, 1, 1>("gelu", count, {{x}, {y}}, Value<ExactGelu>{});
  } else {
    launch_map<T, 1, 1>("gelu_tanh", count, {{x}, {y}}, Value<TanhGelu>{});
  }
}

template <class Backend, class T>
void GeluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, std::int64_t count, GeluForm form) {
  if (form == GeluForm::kExact) {
    launch_map<T, 2, 1>("gelu_gradient", count, {{dy, x}, {dx}}, Gradient<ExactGelu>{});
  } else {
    launch_map<T, 2, 1>("gelu_tanh_gradient", count, {{dy, x}, {dx}}, Gradient<TanhGelu>{});
  }
}

template struct GeluKernels<Cuda, float>;
template struct GeluKernels<Cuda, bfloat16>;

}  // namespace moh
