#include "core/late_tensor.h"

namespace moh {

Tensor late_tensor(const Shape& shape, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  tensor.release_until_read([=] { return empty(shape, dtype, device); });
  return tensor;
}

}  // namespace moh
