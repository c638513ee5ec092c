#pragma once

#include "core/tensor.h"

namespace moh {

/// rows[number] = row. The number (an int64 scalar) is read where the tensors lie, when the copy is made: a
/// captured copy goes to another row in each launch. rows [N, ...], row of the shape of a row and the same
/// dtype, all on one device; 0 <= number < N, which is the caller's to see to on a GPU, as the host does not
/// know the number.
void copy_to_row(const Tensor& rows, const Tensor& number, const Tensor& row);

}  // namespace moh
