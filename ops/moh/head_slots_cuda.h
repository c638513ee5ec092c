#pragma once

#include <cstdint>

namespace moh {

/// A selection and its slots; see head_slots.
struct HeadSlotArgs {
  std::int64_t tokens, groups, group_heads, per_group;
  const std::uint8_t* selected;  ///< [tokens, groups * group_heads]
  std::int32_t* slots;           ///< [tokens, groups, per_group]
};

struct CudaHeadSlots {
  /// In device memory.
  static void fill(const HeadSlotArgs& args);
};

}  // namespace moh
