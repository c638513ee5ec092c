#pragma once

#include <span>

#include "core/tensor.h"

namespace moh {

/// rows[number] = the elements of `parts`, one part after the other. rows [N, W] is float64, the parts are of
/// any dtype, W elements in all. The number (an int64 scalar) is read where the tensors lie, when the copy is
/// made: a captured copy goes to another row in each launch. All are on one device; 0 <= number < N, which is
/// the caller's to see to on a GPU, as the host does not know the number.
void copy_to_row(const Tensor& rows, const Tensor& number, std::span<const Tensor> parts);

}  // namespace moh
