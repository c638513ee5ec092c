#include "models/vision/transnext_layers.h"

#include <string>
#include <utility>

#include "autograd/recompute.h"
#include "models/layers/drop_path.h"
#include "ops/conv/conv_glu.h"
#include "ops/linalg/linear.h"
#include "ops/moh/add_expert.h"
#include "ops/moh/head_router.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

constexpr double kBlockEps = 1e-6, kPatchEps = 1e-5;

}  // namespace

OverlapPatchEmbed::OverlapPatchEmbed(const Sizes& s, Placement placement)
    : proj_(s.in, s.out, s.kernel, {.stride = s.stride, .padding = s.kernel / 2}, placement),
      norm_(s.out, kPatchEps, placement) {
  add_child("proj", proj_);
  add_child("norm", norm_);
}

ConvGlu::Depthwise::Depthwise(std::int64_t hidden, Placement placement)
    : conv(hidden, hidden, 3, {.padding = 1, .groups = hidden}, placement) {
  add_child("dwconv", conv);
}

ConvGlu::ConvGlu(std::int64_t width, std::int64_t hidden, RecomputeLevel recompute, Placement placement)
    : recompute_(recompute),
      fc1_(width, 2 * hidden, true, placement),
      fc2_(hidden, width, true, placement),
      dwconv_(hidden, placement) {
  add_child("fc1", fc1_);
  add_child("dwconv", dwconv_);
  add_child("fc2", fc2_);
}

Variable ConvGlu::operator()(const Variable& x, const GridSize& grid) const {
  const auto gated = [this](const Variable& of) {
    return conv_glu(of, dwconv_.conv.weight(), dwconv_.conv.bias());
  };
  const Variable h = reshape(fc1_(x), {x.dim(0), grid.height, grid.width, -1}), y = gated(h);
  Variable out = fc2_(reshape(y, {x.dim(0), x.dim(1), -1}));
  if (recomputes_mlp(recompute_)) {
    recompute_when_read(h, [this, x = x.detach(), shape = h.shape()] { return reshape(fc1_(x), shape); });
  }
  if (recomputes_norms(recompute_)) recompute_when_read(y, [gated, h = h.detach()] { return gated(h); });
  return out;
}

ExpertGlu::ExpertGlu(std::int64_t experts, std::int64_t width, std::int64_t hidden, RecomputeLevel recompute,
                     Placement placement)
    : gate_(width, experts, false, placement) {
  add_child("gate", gate_);
  for (std::int64_t e = 0; e < experts; ++e) {
    experts_.push_back(std::make_unique<ConvGlu>(width, hidden, recompute, placement));
    add_child("experts." + std::to_string(e), *experts_.back());
  }
}

ExpertGlu::Output ExpertGlu::operator()(const Variable& x, const GridSize& grid) const {
  const std::int64_t tokens = x.dim(0) * x.dim(1), count = static_cast<std::int64_t>(experts_.size());
  const Variable logits =
      reshape(linear(x, gate_.weight(), {}, accumulate_dtype(x.dtype())), {tokens, count});
  // The gates of routed heads alone, in the paper's scaling, are those of experts: p of the one that is kept.
  const Routing routing =
      route_heads({}, logits, {}, tokens, {.heads = count, .top_k = 1, .scaling = GateScaling::kPaper});
  Output output{{}, routing.balance};
  for (std::int64_t e = 0; e < count; ++e)
    output.y = add_expert(output.y, (*experts_[static_cast<std::size_t>(e)])(x, grid), routing.gates, e);
  return output;
}

TransNextBlock::TransNextBlock(const TransNextAttentionOptions& attention, const FeedForward& mlp,
                               double drop_path, Placement placement)
    : drop_path_(drop_path),
      recompute_(attention.recompute),
      norm1_(attention.width, kBlockEps, placement),
      attn_(attention, placement),
      norm2_(attention.width, kBlockEps, placement) {
  add_child("norm1", norm1_);
  add_child("attn", attn_);
  add_child("norm2", norm2_);
  if (mlp.experts == 1) {
    mlp_ = std::make_unique<ConvGlu>(attention.width, mlp.hidden, recompute_, placement);
    add_child("mlp", *mlp_);
  } else {
    experts_ = std::make_unique<ExpertGlu>(mlp.experts, attention.width, mlp.hidden, recompute_, placement);
    add_child("mlp", *experts_);
  }
}

StreamOutput TransNextBlock::forward(ResidualStream stream, const StageGrid& grid,
                                     const ForwardContext& context) const {
  const AddedAndNormed input = std::exchange(stream, {}).normed(norm1_);
  LayerOutput attention = attn_.forward(input.normed, grid, context);
  norm1_.recompute(recompute_, input);
  const AddedAndNormed of_mlp =
      ResidualStream{input.sum, branch_of(std::move(attention.y), drop_path_, context)}.normed(norm2_);
  ExpertGlu::Output mlp;
  if (mlp_) {
    mlp.y = (*mlp_)(of_mlp.normed, grid.tokens);
  } else {
    mlp = (*experts_)(of_mlp.normed, grid.tokens);
  }
  norm2_.recompute(recompute_, of_mlp);
  return {{of_mlp.sum, branch_of(std::move(mlp.y), drop_path_, context)},
          std::move(attention.routing),
          mlp.balance};
}

}  // namespace moh
