#include "ops/attention/tensor_cores/forward_warp.h"
#include "ops/attention/tensor_cores/head_widths.h"
#include "ops/attention/tensor_cores/key_pass.h"
#include "ops/attention/tensor_cores/tensor_core_attention.h"

namespace moh {
namespace tensor_cores {
namespace {

/// Two strips, so that a loaded key serves 32 rows. Fewer keys per step for wide heads, and with dropout,
/// which need the registers.
template <int kHeadDim, bool kDrops>
using ForwardOfTiles = ForwardWarp<kHeadDim, 2, (kHeadDim <= 96 ? 64 : 32) / (kDrops ? 2 : 1), kDrops>;
template <int kHeadDim>
using ForwardOfNarrowTiles = ForwardWarp<kHeadDim, 2, 32>;
template <int kHeadDim>
using ForwardOfLists = ForwardWarp<kHeadDim, 1, kHeadDim <= 64 ? 64 : 32>;

}  // namespace
}  // namespace tensor_cores

bool TensorCoreAttention::takes(std::int64_t head_dim) {
  return tensor_cores::visit_head_width(head_dim, [](auto) {});
}

void TensorCoreAttention::forward(const AttentionForward<bfloat16>& args, std::int64_t num_rows) {
  if (args.shape.batch * args.shape.queries == 0) return;
  const tensor_cores::PassZeros zeros = tensor_cores::zeros_of(args.lists, args.out, args.shape);
  tensor_cores::visit_head_width(args.shape.head_dim, [&](auto width) {
    using namespace tensor_cores;
    constexpr PassKernels kNames{.tiles_kernel = "attention_forward",
                                 .lists_kernel = "attention_forward_short"};
    if (args.shape.dropout.drops())
      return launch_tiles<ForwardOfTiles<width.value, true>>(kNames, args, num_rows, zeros);
    launch_pass<ForwardOfTiles<width.value, false>, ForwardOfNarrowTiles<width.value>,
                ForwardOfLists<width.value>>(kNames, args, num_rows, zeros);
  });
}

}  // namespace moh
