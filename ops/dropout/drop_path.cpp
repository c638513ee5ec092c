#include "ops/dropout/drop_path.h"

#include "ops/dropout/drop_path_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

Tensor with_samples_dropped(const Tensor& x, DropoutMask mask) {
  Tensor y = empty_like(x);
  const std::int64_t count = x.dim(0);
  const Rows samples{count, count == 0 ? 0 : x.numel() / count};
  run_kernel("drop_path", x, [&]<class Backend, class T>() {
    DropPathKernels<Backend, T>::apply(x.data<T>(), y.data<T>(), samples, mask);
  });
  return y;
}

}  // namespace

Variable drop_path(const Variable& x, double rate, RandomKey key) {
  Check("drop_path").floating("x", x).min_rank("x", x, 1);
  const DropoutMask mask = dropout_mask("drop_path", "rate", rate, key, x.device());
  if (rate == 0.0) return x;
  return record("drop_path", with_samples_dropped(x.value(), mask), {x},
                [mask](const Tensor& dy) -> Grads { return {with_samples_dropped(dy, mask)}; });
}

}  // namespace moh
