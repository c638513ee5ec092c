#include "ops/norm/group_norm.h"

#include <string>

#include "ops/norm/group_norm_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

GroupNormSizes check_group_norm(const Variable& x, const Variable& w, const Variable& b, std::int64_t groups,
                                double eps) {
  Check check("group_norm");
  check.floating("x", x).rank("x", x, 4).positive("eps", eps);
  const std::int64_t channels = x.dim(3);
  check.require(groups > 0 && channels % groups == 0, "groups",
                "a divisor of the " + std::to_string(channels) + " channels", std::to_string(groups));
  const Shape shape{channels};
  check.shape("w", w, shape, "last axis of x").like("w", w, "x", x);
  check.shape("b", b, shape, "last axis of x").like("b", b, "x", x);
  return {x.dim(0), x.dim(1) * x.dim(2), channels, groups};
}

Tensor partials_for(const Tensor& x, const GroupNormSizes& s) {
  return empty({s.images * s.chunks(), 2, s.channels}, accumulate_dtype(x.dtype()), x.device());
}

}  // namespace

Variable group_norm(const Variable& x, const Variable& w, const Variable& b, std::int64_t groups,
                    double eps) {
  const GroupNormSizes sizes = check_group_norm(x, w, b, groups, eps);
  Tensor y = empty_like(x.value());
  const Tensor partials = partials_for(x.value(), sizes);
  Tensor mean = empty({sizes.images, groups}, partials.dtype(), x.device()), r = empty_like(mean);
  run_kernel("group_norm", y, [&]<class Backend, class T>() {
    using A = Acc<T>;
    GroupNormKernels<Backend, T>::forward(x.value().data<T>(), w.value().data<T>(), b.value().data<T>(),
                                          y.data<T>(), mean.data<A>(), r.data<A>(), partials.data<A>(), sizes,
                                          eps);
  });
  return record("group_norm", y, {x, w, b},
                [x = x.value(), w = w.value(), mean, r, sizes,
                 needs_sums = w.requires_grad() || b.requires_grad()](const Tensor& dy) -> Grads {
                  Tensor dx = empty_like(x), dw, db;
                  if (needs_sums) {
                    dw = empty_like(w);
                    db = empty_like(w);
                  }
                  const Tensor sums = partials_for(x, sizes);
                  const Tensor means = empty({sizes.images, sizes.groups, 2}, sums.dtype(), x.device());
                  run_kernel("group_norm", dy, [&]<class Backend, class T>() {
                    using A = Acc<T>;
                    GroupNormKernels<Backend, T>::backward(
                        dy.data<T>(), x.data<T>(), w.data<T>(), mean.data<A>(), r.data<A>(), dx.data<T>(),
                        needs_sums ? dw.data<T>() : nullptr, needs_sums ? db.data<T>() : nullptr,
                        sums.data<A>(), means.data<A>(), sizes);
                  });
                  return {dx, dw, db};
                });
}

}  // namespace moh
