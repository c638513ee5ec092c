#include "ops/shape/reshape.h"

#include <algorithm>
#include <vector>

#include "autograd/node.h"
#include "core/error.h"

namespace moh {

Variable reshape(const Variable& x, const Shape& shape) {
  return record("reshape", x.value().reshape(shape), {x},
                [from = x.shape()](const Tensor& dy) -> Grads { return {dy.reshape(from)}; });
}

Variable reshape(const Variable& x, std::initializer_list<std::int64_t> extents) {
  std::vector<std::int64_t> sizes(extents);
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open != sizes.end()) {
    *open = 1;
    const std::int64_t others = Shape(std::span<const std::int64_t>(sizes)).numel();
    if (others == 0 || x.numel() % others != 0) {
      throw ShapeError(error_message("reshape", "extent -1",
                                     "a divisor of " + std::to_string(x.numel()) + " elements",
                                     std::to_string(others)));
    }
    *open = x.numel() / others;
  }
  return reshape(x, Shape(std::span<const std::int64_t>(sizes)));
}

}  // namespace moh
