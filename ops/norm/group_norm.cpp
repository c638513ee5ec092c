#include "ops/norm/group_norm.h"

#include <string>

#include "ops/norm/group_norm_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

GroupNormSizes check_images(Check& check, const Variable& x, std::int64_t groups) {
  check.floating("x", x).rank("x", x, 4);
  const std::int64_t channels = x.dim(3);
  check.require(groups > 0 && channels % groups == 0, "groups",
                "a divisor of the " + std::to_string(channels) + " channels", std::to_string(groups));
  return {x.dim(0), x.dim(1) * x.dim(2), channels, groups};
}

void check_parameters(Check& check, const Variable& x, const Variable& w, const Variable& b) {
  const Shape shape{x.dim(3)};
  check.shape("w", w, shape, "last axis of x").like("w", w, "x", x);
  check.shape("b", b, shape, "last axis of x").like("b", b, "x", x);
}

Tensor partials_for(const Tensor& x, const GroupNormSizes& s) {
  return empty({s.images * s.chunks(), 2, s.channels}, accumulate_dtype(x.dtype()), x.device());
}

GroupStatistics statistics_of(const Tensor& x, const GroupNormSizes& sizes, double eps) {
  const Tensor partials = partials_for(x, sizes);
  GroupStatistics of{empty({sizes.images, sizes.groups}, partials.dtype(), x.device()), {}};
  of.r = empty_like(of.mean);
  run_kernel("group_norm", x, [&]<class Backend, class T>() {
    using A = Acc<T>;
    GroupNormKernels<Backend, T>::statistics(x.data<T>(), of.mean.data<A>(), of.r.data<A>(),
                                             partials.data<A>(), sizes, eps);
  });
  return of;
}

Tensor normalised(const Tensor& x, const Tensor& w, const Tensor& b, const GroupStatistics& of,
                  const GroupNormSizes& sizes) {
  Tensor y = empty_like(x);
  const Tensor scratch = partials_for(x, sizes);
  run_kernel("group_norm", x, [&]<class Backend, class T>() {
    using A = Acc<T>;
    GroupNormKernels<Backend, T>::normalise(x.data<T>(), w.data<T>(), b.data<T>(), of.mean.data<A>(),
                                            of.r.data<A>(), y.data<T>(), scratch.data<A>(), sizes);
  });
  return y;
}

}  // namespace

GroupStatistics group_statistics(const Tensor& x, std::int64_t groups, double eps) {
  Check check("group_norm");
  const GroupNormSizes sizes = check_images(check, Variable(x), groups);
  check.positive("eps", eps);
  return statistics_of(x, sizes, eps);
}

Tensor group_norm_rows(const Tensor& x, const Tensor& w, const Tensor& b, const GroupStatistics& of) {
  Check check("group_norm");
  const GroupNormSizes sizes = check_images(check, Variable(x), of.mean.dim(1));
  check_parameters(check, Variable(x), Variable(w), Variable(b));
  check.require(of.mean.dim(0) == sizes.images, "statistics",
                "of " + std::to_string(sizes.images) + " images", std::to_string(of.mean.dim(0)));
  return normalised(x, w, b, of, sizes);
}

Variable group_norm(const Variable& x, const Variable& w, const Variable& b, std::int64_t groups,
                    double eps) {
  Check check("group_norm");
  const GroupNormSizes sizes = check_images(check, x, groups);
  check_parameters(check, x, w, b);
  check.positive("eps", eps);
  const GroupStatistics of = statistics_of(x.value(), sizes, eps);
  const Tensor y = normalised(x.value(), w.value(), b.value(), of, sizes);
  return record("group_norm", y, {x, w, b},
                [x = x.value(), w = w.value(), mean = of.mean, r = of.r, sizes,
                 needs_sums = w.requires_grad() || b.requires_grad()](const Tensor& dy) -> Grads {
                  Tensor dx = empty_like(x), dw, db;
                  if (needs_sums) {
                    dw = empty(w.shape(), accumulate_dtype(w.dtype()), w.device());
                    db = empty_like(dw);
                  }
                  const Tensor sums = partials_for(x, sizes);
                  const Tensor means = empty({sizes.images, sizes.groups, 2}, sums.dtype(), x.device());
                  run_kernel("group_norm", dy, [&]<class Backend, class T>() {
                    using A = Acc<T>;
                    GroupNormKernels<Backend, T>::backward(
                        dy.data<T>(), x.data<T>(), w.data<T>(), mean.data<A>(), r.data<A>(), dx.data<T>(),
                        needs_sums ? dw.data<A>() : nullptr, needs_sums ? db.data<A>() : nullptr,
                        sums.data<A>(), means.data<A>(), sizes);
                  });
                  return {dx, dw, db};
                });
}

}  // namespace moh
