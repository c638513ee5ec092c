#include "core/cuda/fault.h"
#include "ops/attention/attention_kernels.h"
#include "ops/attention/head_lists_cuda.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/scan.h"

namespace moh {

namespace {

constexpr int kThreads = 256, kWarps = kThreads / device::kWarp;

/// The selected heads of a token within one group.
struct Group {
  const std::uint8_t* bits;
  std::int64_t size;

  MOH_DEVICE std::int32_t count() const {
    std::int32_t count = 0;
    for (std::int64_t h = 0; h < size; ++h) count += bits[h] != 0;
    return count;
  }
};

MOH_DEVICE Group group_of(const HeadListArgs& args, std::int64_t list, std::int64_t token) {
  const std::int64_t size = args.heads / args.kv_heads, batch = list / args.kv_heads;
  return {args.selected + (batch * args.tokens + token) * args.heads + list % args.kv_heads * size, size};
}

/// counts[list] = the length of the list. One block per list.
MOH_KERNEL(kThreads) void count_rows_kernel(HeadListArgs args, std::int64_t* counts) {
  const std::int64_t list = device::block_x();
  std::int64_t count = 0;
  for (std::int64_t t = device::thread_x(); t < args.tokens; t += kThreads)
    count += group_of(args, list, t).count();
  count = reduce_block(count, Sum{}, device::shared_memory<std::int64_t>());
  if (device::thread_x() == 0) counts[list] = count;
}

/// Writes the offsets, clamped to the capacity of `rows`, and the rows, tokens in their order. One block per
/// list, which adds the lengths of those before it.
MOH_KERNEL(kThreads)
void write_rows_kernel(HeadListArgs args, const std::int64_t* counts, cuda::Fault* fault,
                       std::int32_t fault_kind) {
  auto* const sums = device::shared_memory<std::int64_t>();
  auto* const space = reinterpret_cast<std::int32_t*>(sums + kWarps);
  const std::int64_t list = device::block_x();
  std::int64_t next = 0;
  for (std::int64_t l = device::thread_x(); l < list; l += kThreads) next += counts[l];
  next = reduce_block(next, Sum{}, sums);
  if (device::thread_x() == 0) {
    const auto clamped = [&](std::int64_t offset) {
      return offset < args.most_rows ? offset : args.most_rows;
    };
    args.offsets[list] = clamped(next);
    if (list + 1 == args.batch * args.kv_heads) args.offsets[list + 1] = clamped(next + counts[list]);
  }
  for (std::int64_t begin = 0; begin < args.tokens; begin += kThreads) {
    const std::int64_t t = begin + device::thread_x();
    const Group group = t < args.tokens ? group_of(args, list, t) : Group{nullptr, 0};
    std::int32_t total = 0;
    std::int64_t at = next + sum_before<kThreads>(group.count(), space, &total);
    for (std::int64_t h = 0; h < group.size; ++h) {
      if (group.bits[h] == 0) continue;
      if (at < args.most_rows) args.rows[at] = static_cast<std::int32_t>(t | h << kListPositionBits);
      ++at;
    }
    next += total;
  }
  if (device::thread_x() == 0 && next > args.most_rows) {
    fault->value = next;
    fault->place = list;
    fault->kind = fault_kind;
  }
}

}  // namespace

void CudaHeadLists::fill(const HeadListArgs& args) {
  const std::int64_t lists = args.batch * args.kv_heads;
  if (lists == 0) return cuda::set_zero(args.offsets, sizeof(std::int64_t));
  const std::int32_t kind = cuda::fault_kind("build_head_lists: selected: expected at most " +
                                             std::to_string(args.most_rows) + " pairs");
  const DeviceScratch counts(static_cast<std::size_t>(lists) * sizeof(std::int64_t));
  cuda::launch("count_list_rows", count_rows_kernel,
               {.blocks_x = lists, .threads = kThreads, .shared_bytes = kWarps * sizeof(std::int64_t)}, args,
               counts.as<std::int64_t>());
  cuda::launch("write_list_rows", write_rows_kernel,
               {.blocks_x = lists,
                .threads = kThreads,
                .shared_bytes = kWarps * (sizeof(std::int64_t) + sizeof(std::int32_t))},
               args, counts.as<std::int64_t>(), cuda::fault_on_device(), kind);
}

}  // namespace moh
