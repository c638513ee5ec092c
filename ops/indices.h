#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/tensor.h"

namespace moh {

/// The valid values of an index tensor.
struct IndexRange {
  std::int64_t bound = 0;               ///< each index is in [0, bound)
  std::optional<std::int64_t> ignored;  ///< this value is valid, too (ignore_index)
  std::string_view of;                  ///< what is indexed, for messages: "rows of table"
};

/// Checks the index operand of an op and returns it as int64, converted when it is int32. Throws ValueError
/// naming the first element out of range and its position, DTypeError for another dtype, DeviceError when it
/// is not on `device`. On a GPU the check is asynchronous: elements out of range are replaced by 0, and the
/// next synchronization throws. In a dry run nothing is checked.
Tensor checked_indices(std::string_view op, std::string_view name, const Tensor& indices, Device device,
                       const IndexRange& range);

}  // namespace moh
