#include "core/cuda/launch.h"
#include "core/cuda/tag.h"
#include "ops/elementwise/mean_of_kernels.h"

namespace moh {

namespace {

template <class T>
struct AddUp {
  Scalars<T> scalars;
  const T* before;
  float factor;
  T* sum;
  MOH_DEVICE void operator()(std::int64_t /*one*/) const {
    float all = before != nullptr ? static_cast<float>(*before) : 0.0F;
    for (int i = 0; i < scalars.count; ++i) all += static_cast<float>(*scalars.at[i]);
    *sum = factor * all;
  }
};

}  // namespace

template <class Backend, class T>
void MeanOfKernels<Backend, T>::add_up(const Scalars<T>& scalars, const T* before, Acc<T> factor, T* sum) {
  cuda::launch_each("mean_of", 1, AddUp<T>{scalars, before, factor, sum});
}

template struct MeanOfKernels<Cuda, float>;
template struct MeanOfKernels<Cuda, bfloat16>;

}  // namespace moh
