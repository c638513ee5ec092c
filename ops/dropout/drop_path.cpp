#include "ops/dropout/drop_path.h"

#include "ops/dropout/drop_path_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

/// With `addend` added, if it is defined.
Tensor with_samples_dropped(std::string_view op, const Tensor& x, DropoutMask mask,
                            const Tensor& addend = {}) {
  Tensor y = empty_like(x);
  const std::int64_t count = x.dim(0);
  const Rows samples{count, count == 0 ? 0 : x.numel() / count};
  run_kernel(op, x, [&]<class Backend, class T>() {
    DropPathKernels<Backend, T>::apply(x.data<T>(), addend.defined() ? addend.data<T>() : nullptr,
                                       y.data<T>(), samples, mask);
  });
  return y;
}

}  // namespace

Variable drop_path(const Variable& x, double rate, RandomKey key) {
  Check("drop_path").floating("x", x).min_rank("x", x, 1);
  const DropoutMask mask = dropout_mask("drop_path", "rate", rate, key, x.device());
  if (rate == 0.0) return x;
  return record("drop_path", with_samples_dropped("drop_path", x.value(), mask), {x},
                [mask](const Tensor& dy) -> Grads { return {with_samples_dropped("drop_path", dy, mask)}; });
}

Variable add_drop_path(const Variable& x, const Variable& branch, double rate, RandomKey key) {
  Check("add_drop_path").floating("branch", branch).min_rank("branch", branch, 1);
  Check("add_drop_path").like("x", x, "branch", branch).shape("x", x, branch.shape(), "as branch");
  const DropoutMask mask = dropout_mask("add_drop_path", "rate", rate, key, branch.device());
  return record("add_drop_path", with_samples_dropped("add_drop_path", branch.value(), mask, x.value()),
                {x, branch}, [mask](const Tensor& dy) -> Grads {
                  return {dy, with_samples_dropped("add_drop_path", dy, mask)};
                });
}

}  // namespace moh
