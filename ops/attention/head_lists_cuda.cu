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

/// offsets = exclusive prefix sum of the lengths. One block.
MOH_KERNEL(kThreads)
void sum_offsets_kernel(const std::int64_t* counts, std::int64_t lists, std::int64_t* offsets) {
  scan_counts<kThreads>(counts, lists, offsets);
}

/// Writes the rows, tokens in their order. One block per list.
MOH_KERNEL(kThreads) void write_rows_kernel(HeadListArgs args, cuda::Fault* fault, std::int32_t fault_kind) {
  auto* space = device::shared_memory<std::int32_t>();
  const std::int64_t list = device::block_x();
  std::int64_t next = args.offsets[list];
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

/// Clamps the offsets to the capacity of `rows`.
struct CutOffsets {
  std::int64_t* offsets;
  std::int64_t most;
  MOH_DEVICE void operator()(std::int64_t l) const { offsets[l] = offsets[l] < most ? offsets[l] : most; }
};

}  // namespace

void CudaHeadLists::fill(const HeadListArgs& args) {
  const std::int64_t lists = args.batch * args.kv_heads;
  const std::int32_t kind = cuda::fault_kind("build_head_lists: selected: expected at most " +
                                             std::to_string(args.most_rows) + " pairs");
  const DeviceScratch counts(static_cast<std::size_t>(lists) * sizeof(std::int64_t));
  cuda::launch("count_list_rows", count_rows_kernel,
               {.blocks_x = lists, .threads = kThreads, .shared_bytes = kWarps * sizeof(std::int64_t)}, args,
               counts.as<std::int64_t>());
  cuda::launch("sum_list_offsets", sum_offsets_kernel,
               {.threads = kThreads, .shared_bytes = kThreads * sizeof(std::int64_t)},
               counts.as<std::int64_t>(), lists, args.offsets);
  cuda::launch("write_list_rows", write_rows_kernel,
               {.blocks_x = lists, .threads = kThreads, .shared_bytes = kWarps * sizeof(std::int32_t)}, args,
               cuda::fault_on_device(), kind);
  cuda::launch_each("cut_list_offsets", lists + 1, CutOffsets{args.offsets, args.most_rows});
}

}  // namespace moh
