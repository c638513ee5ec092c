#include <cmath>

#include "ops/attention/tensor_cores/forward_warp.h"
#include "ops/attention/tensor_cores/head_widths.h"
#include "ops/attention/tensor_cores/tensor_core_attention.h"
#include "ops/attention/zero_heads_cuda.h"
#include "ops/cuda/scratch.h"

// Few query rows against many keys: bound by memory bandwidth, so keys and values are read once, by all
// multiprocessors. Each warp, a block of its own, computes a part of the keys of a list; the partial results
// are merged in their order.

namespace moh {
namespace tensor_cores {
namespace {

/// Keys of a part, whose loads a warp has in flight at once; a constant, so that results have the same bits
/// for any batch size.
constexpr int kPartKeys = 128;

/// Partial results of parts [first, first + count): element [part - first, row], `rows` rows each.
struct Parts {
  std::int64_t first, count, rows;
  float *out, *top, *sum;

  MOH_DEVICE std::int64_t at(std::int64_t part, std::int64_t row) const {
    return (part - first) * rows + row;
  }
};

template <int kHeadDim>
struct PartMemory {
  Heads<kHeadDim, 16> queries;
  Heads<kHeadDim, kPartKeys> keys, values;
  Place places[16];
};

/// A part of the keys of a list, for all rows of the list.
template <int kHeadDim>
MOH_KERNEL(device::kWarp)
void decode_part_kernel(AttentionForward<bfloat16> args, Parts parts) {
  using Warp = ForwardWarp<kHeadDim, 1, kHeadDim <= 96 ? 64 : 32>;
  auto& memory = *device::shared_memory<PartMemory<kHeadDim>>();
  const std::int64_t part = parts.first + device::block_x() % parts.count;
  const List list = list_at(args.shape, args.lists, device::block_x() / parts.count);
  if (list.rows == 0) return;  // no head of the group is selected: its keys are not read
  const int first_key = static_cast<int>(part) * kPartKeys;
  const Copiers copiers{device::thread_x(), device::kWarp};
  const auto copy_part = [&](Heads<kHeadDim, kPartKeys>& heads, const HeadView<const bfloat16>& view) {
    copy_heads<kHeadDim>(heads.elements, kPartKeys, copiers, view.data, [&](int r) {
      return first_key + r < args.shape.keys ? key_row(view, list, first_key + r) : nullptr;
    });
  };
  copy_part(memory.keys, args.k);
  copy_part(memory.values, args.v);
  for (int row = 0; row < list.rows; row += 16) {
    const int left = static_cast<int>(list.rows) - row;
    device::sync_warp();
    if (lane_number() < 16) memory.places[lane_number()] = place_of(list, row, left, lane_number());
    device::sync_warp();
    copy_heads<kHeadDim>(memory.queries.elements, 16, copiers, args.q.data,
                         [&](int r) { return head_at(args.q, list, memory.places[r]); });
    device::commit_copies();
    device::wait_copies<0>();
    device::sync_warp();
    const std::int64_t number = list.first + row, at = parts.at(part, number);
    Warp warp(args, list, memory.places, left, number, {memory.queries.elements});
    MOH_ROLLED
    for (int key = 0; key < kPartKeys; key += Warp::kKeys)
      warp.add(args, first_key + key, memory.keys.row(key), memory.values.row(key));
    warp.leave(parts.out + at * kHeadDim, parts.top + at, parts.sum + at);
  }
}

/// out of a row, one warp: gate * sum of 2^(top_p - top) out_p / sum of 2^(top_p - top) sum_p over its parts
/// p.
template <int kHeadDim>
MOH_KERNEL(device::kWarp)
void decode_merge_kernel(AttentionForward<bfloat16> args, Parts parts) {
  const std::int64_t number = device::block_x();
  if (number >= total_rows(args.shape, args.lists)) return;
  const List list = list_of_row(args.shape, args.lists, number);
  const Pair pair = pair_at(list, number - list.first);
  const Range keys = visible_keys(args.shape, list.batch, pair.token),
              seen{keys.begin / kPartKeys, (keys.end + kPartKeys - 1) / kPartKeys};
  float top = -INFINITY, total = 0;
  for (std::int64_t p = seen.begin; p < seen.end; ++p) top = fmaxf(top, parts.top[parts.at(p, number)]);
  const float base = top == -INFINITY ? 0.0F : top;
  for (std::int64_t p = seen.begin; p < seen.end; ++p)
    total += device::exp2_fast(parts.top[parts.at(p, number)] - base) * parts.sum[parts.at(p, number)];
  const float gate = args.gates != nullptr ? args.gates[gate_index(args.shape, list, pair)] : 1.0F;
  bfloat16* const out = row_of(args.out, list, pair);
  for (int c = lane_number(); c < kHeadDim; c += device::kWarp) {
    float sum = 0;
    for (std::int64_t p = seen.begin; p < seen.end; ++p) {
      const std::int64_t at = parts.at(p, number);
      sum += device::exp2_fast(parts.top[at] - base) * parts.out[at * kHeadDim + c];
    }
    out[c] = gate * sum / total;
  }
}

template <int kHeadDim>
void launch_decode(const AttentionForward<bfloat16>& args, std::int64_t num_rows) {
  const AttentionShape& s = args.shape;
  const std::int64_t first = visible_keys(s, 0, 0).begin / kPartKeys;  // of the first query's window
  Parts parts{first, (s.keys + kPartKeys - 1) / kPartKeys - first, num_rows, nullptr, nullptr, nullptr};
  const std::int64_t count = parts.count * num_rows;
  const DeviceScratch memory(static_cast<std::size_t>(count * (kHeadDim + 2)) * sizeof(float));
  parts.out = memory.as<float>();
  parts.top = parts.out + count * kHeadDim;
  parts.sum = parts.top + count;
  cuda::launch("attention_decode_part", decode_part_kernel<kHeadDim>,
               {.blocks_x = s.batch * s.kv_heads * parts.count,
                .threads = device::kWarp,
                .shared_bytes = sizeof(PartMemory<kHeadDim>)},
               args, parts);
  cuda::launch("attention_decode_merge", decode_merge_kernel<kHeadDim>,
               {.blocks_x = num_rows, .threads = device::kWarp}, args, parts);
}

}  // namespace
}  // namespace tensor_cores

void TensorCoreAttention::decode(const AttentionForward<bfloat16>& args, std::int64_t num_rows) {
  if (args.lists.rows != nullptr) zero_heads(args.out, args.shape);
  if (num_rows == 0) return;
  tensor_cores::visit_head_width(
      args.shape.head_dim, [&](auto width) { tensor_cores::launch_decode<width.value>(args, num_rows); });
}

}  // namespace moh
