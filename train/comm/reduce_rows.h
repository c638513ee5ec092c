#pragma once

#include <cstddef>
#include <vector>

#include "core/dtype.h"
#include "train/comm/communicator.h"

namespace moh {

/// out[i] = sum or maximum over r of rows[r][i] for `count` elements, in the order of the rows; sums of
/// bfloat16 in float32. A NaN is the maximum. `out` may be one of the rows. float32, bfloat16, float64,
/// int64; not parallel.
void reduce_rows(const std::vector<const std::byte*>& rows, std::byte* out, std::size_t count, DType dtype,
                 ReduceOp op);

/// Converts `count` elements of float32 to bfloat16, or back. Not parallel.
void round_to_bfloat16(const float* from, bfloat16* to, std::size_t count);
void upcast(const bfloat16* from, float* to, std::size_t count);

}  // namespace moh
