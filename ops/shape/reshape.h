#pragma once

#include <cstdint>
#include <initializer_list>

#include "autograd/variable.h"

namespace moh {

/// The elements of x with another shape, without a copy. One extent may be -1: it is inferred from the
/// others. Throws ShapeError when the numbers of elements differ.
Variable reshape(const Variable& x, std::initializer_list<std::int64_t> extents);
Variable reshape(const Variable& x, const Shape& shape);

}  // namespace moh
