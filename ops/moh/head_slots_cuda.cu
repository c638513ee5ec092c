#include "ops/moh/head_slots_cuda.h"

#include "ops/cuda/divide.h"

namespace moh {

namespace {

/// A thread has a group of a token, which is a few heads.
struct FillGroup {
  HeadSlotArgs args;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const std::uint8_t* selected = args.selected + i * args.group_heads;
    std::int64_t others = args.per_group;
    for (std::int64_t head = 0; head < args.group_heads; ++head) others -= selected[head] != 0;
    const std::int64_t first = divide(i, args.groups).rest * args.group_heads;
    std::int32_t* to = args.slots + i * args.per_group;
    std::int32_t* const end = to + args.per_group;
    for (std::int64_t head = 0; head < args.group_heads && to < end; ++head) {
      if (selected[head] != 0 || others-- > 0) *to++ = static_cast<std::int32_t>(first + head);
    }
  }
};

}  // namespace

void CudaHeadSlots::fill(const HeadSlotArgs& args) {
  cuda::launch_each("head_slots", args.tokens * args.groups, FillGroup{args});
}

}  // namespace moh
