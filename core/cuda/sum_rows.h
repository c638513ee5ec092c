#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh::cuda {

/// sums[i] = rows[0][i] + rows[1][i] + ... for `count` elements of each of `number` rows, which follow each
/// other: added in float32 in the order of the rows, and rounded once. To the queue of the calling thread.
void sum_rows(const bfloat16* rows, bfloat16* sums, std::int64_t number, std::int64_t count);

}  // namespace moh::cuda
