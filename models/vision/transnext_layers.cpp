#include "models/vision/transnext_layers.h"

#include "models/layers/drop_path.h"
#include "ops/conv/conv_glu.h"
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

ConvGlu::ConvGlu(std::int64_t width, std::int64_t hidden, Placement placement)
    : fc1_(width, 2 * hidden, true, placement),
      fc2_(hidden, width, true, placement),
      dwconv_(hidden, placement) {
  add_child("fc1", fc1_);
  add_child("dwconv", dwconv_);
  add_child("fc2", fc2_);
}

Variable ConvGlu::operator()(const Variable& x, const GridSize& grid) const {
  const Variable h = reshape(fc1_(x), {x.dim(0), grid.height, grid.width, -1});
  const Variable y = conv_glu(h, dwconv_.conv.weight(), dwconv_.conv.bias());
  return fc2_(reshape(y, {x.dim(0), x.dim(1), -1}));
}

TransNextBlock::TransNextBlock(const TransNextAttentionOptions& attention, std::int64_t hidden,
                               double drop_path, Placement placement)
    : drop_path_(drop_path),
      norm1_(attention.width, kBlockEps, placement),
      attn_(attention, placement),
      norm2_(attention.width, kBlockEps, placement),
      mlp_(attention.width, hidden, placement) {
  add_child("norm1", norm1_);
  add_child("attn", attn_);
  add_child("norm2", norm2_);
  add_child("mlp", mlp_);
}

LayerOutput TransNextBlock::forward(const Variable& x, const StageGrid& grid,
                                    const ForwardContext& context) const {
  LayerOutput attention = attn_.forward(norm1_(x), grid, context);
  const Variable y = add_branch(x, attention.y, drop_path_, context);
  return {add_branch(y, mlp_(norm2_(y), grid.tokens), drop_path_, context), std::move(attention.routing), {}};
}

}  // namespace moh
