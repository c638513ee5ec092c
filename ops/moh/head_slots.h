#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace moh {

/// The heads that each token computes, `per_group` of each of `groups` equal parts of its H heads in
/// succession (with grouped-query attention, the query heads of a KV head): int32 [B, T, groups, per_group],
/// numbers of heads, ascending. They are the nonzero elements of `selected`, uint8 [B, T, H]. Where a token
/// selects fewer of a group, the group's lowest other heads take part, whose gates are 0. Throws ShapeError,
/// DTypeError, and on a CPU ValueError for a token that selects more; on a GPU the highest of these are left
/// out.
Tensor head_slots(const Tensor& selected, std::int64_t groups, std::int64_t per_group);

}  // namespace moh
