#include "ops/activation/gelu_cuda.h"
#include "ops/cuda/map.h"
#include "ops/linalg/gelu_mlp_kernels.h"

namespace moh {

namespace {

template <class Gelu, class T>
struct AddAndActivate {
  const T* b;
  std::int64_t width;
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[2], std::int64_t i) const {
    const T sum = b == nullptr ? in[0] : in[0] + static_cast<float>(b[i % width]);
    out[0] = sum;
    out[1] = Gelu::at(out[0]).value;
  }
};

template <class Gelu>
struct GradientAndValue {
  MOH_DEVICE void operator()(const float (&in)[2], float (&out)[2], std::int64_t) const {
    const GeluAt g = Gelu::at(in[1]);
    out[0] = in[0] * g.slope;
    out[1] = g.value;
  }
};

}  // namespace

template <class Backend, class T>
void GeluMlpKernels<Backend, T>::forward(const T* product, const T* b, T* h, T* y, Rows rows, GeluForm form) {
  if (h == nullptr) h = y;  // overwritten by the same thread
  with_gelu(form, [=]<class Gelu>(Gelu) {
    launch_map<T, 1, 2>("gelu_mlp", rows.count * rows.width, {{product}, {h, y}},
                        AddAndActivate<Gelu, T>{b, rows.width});
  });
}

template <class Backend, class T>
void GeluMlpKernels<Backend, T>::backward(T* dy, T* h, std::int64_t count, GeluForm form) {
  with_gelu(form, [=]<class Gelu>(Gelu) {
    launch_map<T, 2, 2>("gelu_mlp_gradient", count, {{dy, h}, {dy, h}}, GradientAndValue<Gelu>{});
  });
}

template struct GeluMlpKernels<Cuda, float>;
template struct GeluMlpKernels<Cuda, bfloat16>;

}  // namespace moh
