#include <cmath>

#include "ops/attention/tensor_cores/head_widths.h"
#include "ops/attention/tensor_cores/rows.h"
#include "ops/attention/tensor_cores/tensor_core_attention.h"
#include "ops/device/block.h"

namespace moh {
namespace tensor_cores {
namespace {

/// How the work is cut for a head width: kRows query rows stay, kKeys keys at a time pass by.
template <int kHeadDim>
struct ForwardCut {
  static constexpr int kStrips = 2, kKeys = kHeadDim <= 96 ? 64 : 32;  // by registers
  static constexpr int kWarpRows = kStrips * 16, kRows = kWarps * kWarpRows;
};

template <int kHeadDim>
struct ForwardMemory {
  using Cut = ForwardCut<kHeadDim>;
  Heads<kHeadDim, Cut::kRows> queries;  // in the end: outputs
  Heads<kHeadDim, Cut::kKeys> keys[2], values[2];
  Place places[Cut::kRows];
  Tile tile;
  List list;  // here, and not in registers, which the loop is short of
};

/// Online softmax of a warp's rows, in powers of two.
template <int kStrips>
struct RunningSoftmax {
  float top[kStrips][2], sum[kStrips][2];  ///< sum: of this thread's columns only

  MOH_DEVICE RunningSoftmax() {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) top[s][0] = top[s][1] = -INFINITY, sum[s][0] = sum[s][1] = 0.0F;
  }

  /// Scores become 2^(scale * score - top); what was summed up before shrinks to the new top.
  template <int kKeys, int kHeadDim>
  MOH_DEVICE void add(Fragments<kStrips, kKeys>& scores, Fragments<kStrips, kHeadDim>& out, float scale) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int half = 0; half < 2; ++half) add_row(scores.at[s], out.at[s], s, half, scale);
    }
  }

 private:
  template <int kPieces, int kOutPieces>
  MOH_DEVICE void add_row(float (&scores)[kPieces][4], float (&out)[kOutPieces][4], int s, int half,
                          float scale) {
    float new_top = top[s][half];
    MOH_UNROLL
    for (int j = 0; j < kPieces; ++j)
      new_top = fmaxf(new_top, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
    new_top = largest_of_row(new_top);
    // A row that sees nothing yet, or is none, has no top to subtract.
    const float base = new_top == -INFINITY ? 0.0F : new_top * scale;
    const float shrink = device::exp2_fast(top[s][half] * scale - base);
    top[s][half] = new_top;
    sum[s][half] *= shrink;
    MOH_UNROLL
    for (int j = 0; j < kPieces; ++j) {
      MOH_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[j][i] = device::exp2_fast(scores[j][i] * scale - base);
        sum[s][half] += scores[j][i];
      }
    }
    MOH_UNROLL
    for (int j = 0; j < kOutPieces; ++j) {
      out[j][2 * half] *= shrink;
      out[j][2 * half + 1] *= shrink;
    }
  }
};

/// A warp's rows on their way through the keys.
template <int kHeadDim>
class WarpForward {
  static constexpr int kStrips = ForwardCut<kHeadDim>::kStrips, kKeys = ForwardCut<kHeadDim>::kKeys;

 public:
  /// The first `rows` places are real.
  MOH_DEVICE WarpForward(const AttentionShape& shape, const Place* places, int rows, bfloat16* queries)
      : range_(shape, places, rows, kStrips * 16),
        places_(places),
        queries_(queries),
        scale_(static_cast<float>(shape.scale) * kLog2E) {}

  /// Takes in keys [first_key, first_key + kKeys).
  MOH_DEVICE void add(const AttentionShape& shape, int first_key, const bfloat16* keys,
                      const bfloat16* values) {
    if (first_key >= range_.most) return;
    Fragments<kStrips, kKeys> scores;
    multiply_heads<kHeadDim>(scores, queries_, keys);
    if (first_key + kKeys > range_.fewest) hide(shape, scores, first_key);
    softmax_.add(scores, out_, scale_);
    accumulate(out_, scores, values);
  }

  /// Writes the outputs, and lse of the rows from number `first` of all lists on.
  MOH_DEVICE void finish(const AttentionForward<bfloat16>& args, const List& list, std::int64_t first) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      float factors[2];
      MOH_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int r = s * 16 + fragment_row(2 * half);
        const float sum = sum_of_row(softmax_.sum[s][half]);
        factors[half] = 0.0F;
        if (!places_[r].real()) continue;
        const float gate =
            args.gates != nullptr ? args.gates[gate_index(args.shape, list, places_[r].pair())] : 1.0F;
        factors[half] = gate / sum;
        if (args.lse != nullptr && lane_number() % 4 == 0)
          args.lse[first + r] = softmax_.top[s][half] * scale_ + log2f(sum);
      }
      store_fragments<kHeadDim>(queries_ + s * 16 * Panel<kHeadDim>::kStride, out_, s, factors);
    }
    device::sync_warp();
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      store_strip<kHeadDim>(queries_ + s * 16 * Panel<kHeadDim>::kStride,
                            [&](int r) { return head_at(args.out, list, places_[s * 16 + r]); });
    }
  }

 private:
  /// Scores of keys that a row does not see become those of probability zero.
  MOH_DEVICE void hide(const AttentionShape& shape, Fragments<kStrips, kKeys>& scores, int first_key) const {
    const VisibleKeys<kStrips> visible(shape, places_);
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int j = 0; j < kKeys / 8; ++j) {
        MOH_UNROLL
        for (int i = 0; i < 4; ++i) {
          if (!visible.sees(first_key, s, j, i)) scores.at[s][j][i] = -INFINITY;
        }
      }
    }
  }

  VisibleRange range_;
  const Place* places_;
  bfloat16* queries_;
  float scale_;
  RunningSoftmax<kStrips> softmax_;
  Fragments<kStrips, kHeadDim> out_;
};

/// One tile: its queries against all keys that they see, while the next keys are on their way.
template <int kHeadDim>
MOH_KERNEL(kThreads)
void attention_forward_kernel(AttentionForward<bfloat16> args, const Tile* tiles, const std::int32_t* count) {
  using Cut = ForwardCut<kHeadDim>;
  if (device::block_x() >= *count) return;
  auto& memory = *device::shared_memory<ForwardMemory<kHeadDim>>();
  const Tile& tile = memory.tile;
  if (device::thread_x() == 0) {
    memory.tile = tiles[device::block_x()];
    memory.list = list_at(args.shape, args.lists, tile.list);
  }
  device::sync_block();
  for (int r = device::thread_x(); r < Cut::kRows; r += kThreads)
    memory.places[r] = place_of(memory.list, tile.first, tile.rows, r);
  device::sync_block();
  copy_heads(memory.queries, args.q.data,
             [&](int r) { return head_at(args.q, memory.list, memory.places[r]); });
  const auto copy_keys = [&](int block) {
    const int first = block * Cut::kKeys, rows = static_cast<int>(args.shape.keys) - first;
    copy_heads(memory.keys[block % 2], key_row(args.k, memory.list, first), args.k.token_stride, rows);
    copy_heads(memory.values[block % 2], key_row(args.v, memory.list, first), args.v.token_stride, rows);
    device::commit_copies();
  };
  copy_keys(0);
  const int warp_row = warp_number() * Cut::kWarpRows;
  WarpForward<kHeadDim> warp(args.shape, memory.places + warp_row, tile.rows - warp_row,
                             memory.queries.row(warp_row));
  const int blocks = (tile.keys + Cut::kKeys - 1) / Cut::kKeys;
  for (int block = 0; block < blocks; ++block) {
    device::wait_copies<0>();
    device::sync_block();  // the copies of all threads are there, and nobody reads the other buffer any more
    if (block + 1 < blocks) copy_keys(block + 1);
    warp.add(args.shape, block * Cut::kKeys, memory.keys[block % 2].elements,
             memory.values[block % 2].elements);
  }
  warp.finish(args, memory.list, memory.list.first + tile.first + warp_row);
}

template <int kHeadDim>
void launch_forward(const AttentionForward<bfloat16>& args, std::int64_t num_rows) {
  const Tiles tiles(args.shape, args.lists, num_rows, ForwardCut<kHeadDim>::kRows);
  cuda::launch(
      "attention_forward", attention_forward_kernel<kHeadDim>,
      {.blocks_x = tiles.most(), .threads = kThreads, .shared_bytes = sizeof(ForwardMemory<kHeadDim>)}, args,
      tiles.tiles(), tiles.count());
}

}  // namespace
}  // namespace tensor_cores

bool TensorCoreAttention::takes(std::int64_t head_dim) {
  return tensor_cores::visit_head_width(head_dim, [](auto) {});
}

void TensorCoreAttention::forward(const AttentionForward<bfloat16>& args, std::int64_t num_rows) {
  if (num_rows == 0) return;
  tensor_cores::visit_head_width(
      args.shape.head_dim, [&](auto width) { tensor_cores::launch_forward<width.value>(args, num_rows); });
}

}  // namespace moh
