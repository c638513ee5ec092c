#pragma once

#include <cstdint>
#include <initializer_list>

#include "autograd/variable.h"

namespace moh {

/// The same elements under another shape, without a copy. One extent may be -1: it takes what the others leave.
/// Throws ShapeError when the counts do not match.
Variable reshape(const Variable& x, std::initializer_list<std::int64_t> extents);
Variable reshape(const Variable& x, const Shape& shape);

}  // namespace moh
