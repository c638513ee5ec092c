#include "ops/moh/head_slots.h"

#include <algorithm>
#include <string>

#include "autograd/profile.h"
#include "core/dry_run.h"
#include "core/parallel.h"
#include "ops/moh/head_slots_cuda.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::string_view kHeadSlotsOp = "head_slots";

void check_selection(const Tensor& selected, std::int64_t groups, std::int64_t per_group) {
  const Variable v(selected);
  Check(kHeadSlotsOp).dtype("selected", v, DType::kUInt8).rank("selected", v, 3);
  const std::int64_t heads = selected.dim(2);
  Check(kHeadSlotsOp)
      .require(groups >= 1 && heads % groups == 0, "groups",
               "a divisor of the " + std::to_string(heads) + " heads", std::to_string(groups));
  const std::int64_t most = heads / groups;
  Check(kHeadSlotsOp).in_range("per_group", static_cast<double>(per_group), 1, static_cast<double>(most));
}

/// Fills the slots of one group of a token from its `size` elements of the selection, head `first` being the
/// first of them.
void fill_group(const std::uint8_t* selected, std::int64_t first, std::int64_t size, std::int64_t count,
                std::int32_t* to) {
  const std::int64_t chosen = size - std::count(selected, selected + size, std::uint8_t{0});
  if (chosen > count)
    throw ValueError(error_message(kHeadSlotsOp, "selected",
                                   std::to_string(count) + " heads of each group at most",
                                   std::to_string(chosen)));
  std::int64_t others = count - chosen;
  for (std::int64_t head = 0; head < size; ++head) {
    if (selected[head] != 0 || others-- > 0) *to++ = static_cast<std::int32_t>(first + head);
  }
}

void fill_on_cpu(const HeadSlotArgs& args) {
  constexpr std::int64_t kGrain = 4096;  // groups of tokens
  parallel_for(args.tokens * args.groups, kGrain, [&args](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      fill_group(args.selected + i * args.group_heads, i % args.groups * args.group_heads, args.group_heads,
                 args.per_group, args.slots + i * args.per_group);
  });
}

}  // namespace

Tensor head_slots(const Tensor& selected, std::int64_t groups, std::int64_t per_group) {
  check_selection(selected, groups, per_group);
  const ProfileScope profile(kHeadSlotsOp);
  Tensor slots =
      empty({selected.dim(0), selected.dim(1), groups, per_group}, DType::kInt32, selected.device());
  if (dry_run() || slots.numel() == 0) return slots;
  const HeadSlotArgs args{selected.dim(0) * selected.dim(1), groups,
                          selected.dim(2) / groups,          per_group,
                          selected.data<std::uint8_t>(),     slots.data<std::int32_t>()};
  if (selected.device() == kCpu) {
    fill_on_cpu(args);
  } else {
    CudaHeadSlots::fill(args);
  }
  return slots;
}

}  // namespace moh
