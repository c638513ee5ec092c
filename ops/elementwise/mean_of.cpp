#include "ops/elementwise/mean_of.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ops/elementwise/mean_of_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

Tensor mean(std::span<const Variable> scalars) {
  const Tensor& like = scalars.front().value();
  Tensor result = empty_like(like);
  run_kernel("mean_of", like, [&]<class Backend, class T>() {
    T* const sum = result.data<T>();
    const T* before = nullptr;
    for (std::size_t first = 0; first < scalars.size(); first += Scalars<T>::kMost) {
      const auto some =
          scalars.subspan(first, std::min<std::size_t>(scalars.size() - first, Scalars<T>::kMost));
      Scalars<T> part{{}, static_cast<int>(some.size())};
      std::ranges::transform(some, part.at, [](const Variable& v) { return v.value().data<T>(); });
      const bool last = first + some.size() == scalars.size();
      const auto share = Acc<T>(1) / static_cast<Acc<T>>(scalars.size());
      MeanOfKernels<Backend, T>::add_up(part, before, last ? share : Acc<T>(1), sum);
      before = sum;
    }
  });
  return result;
}

}  // namespace

Variable mean_of(std::span<const Variable> scalars) {
  Check check("mean_of");
  check.require(!scalars.empty(), "scalars", "one or more", "none");
  check.floating("scalars", scalars.front());
  for (const Variable& scalar : scalars)
    check.shape("scalars", scalar, Shape{}, "a scalar").like("scalars", scalar, "the first", scalars.front());
  return record("mean_of", mean(scalars), {scalars.begin(), scalars.end()},
                [count = scalars.size()](const Tensor& dy) -> Grads {
                  Tensor each = dy.clone();
                  each.scale(1.0 / static_cast<double>(count));
                  return Grads(count, each);
                });
}

}  // namespace moh
