#include "ops/cuda/column_sums.h"
#include "ops/linalg/linear_kernels.h"

namespace moh {

namespace {

template <class T>
struct AddBias {
  const T* b;
  T* y;
  std::int64_t width, stride;
  MOH_DEVICE void operator()(std::int64_t i) const {
    T& to = y[i / width * stride + i % width];
    to = static_cast<float>(to) + static_cast<float>(b[i % width]);
  }
};

template <class T>
struct ElementOf {
  const T* dy;
  std::int64_t stride;
  MOH_DEVICE float operator()(std::int64_t i, std::int64_t j) const { return dy[i * stride + j]; }
};

}  // namespace

template <class Backend, class T>
void LinearKernels<Backend, T>::add_bias(const T* b, T* y, Rows rows, std::int64_t stride) {
  cuda::launch_each("add_bias", rows.count * rows.width, AddBias<T>{b, y, rows.width, stride});
}

template <class Backend, class T>
void LinearKernels<Backend, T>::sum_rows(const T* dy, Acc<T>* db, Rows rows, std::int64_t stride) {
  column_sums("sum_rows", ElementOf<T>{dy, stride}, rows, StoreSums{db});
}

template struct LinearKernels<Cuda, float>;
template struct LinearKernels<Cuda, bfloat16>;

}  // namespace moh
