#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "models/layers/moh_attention.h"
#include "models/model.h"
#include "ops/elementwise/add.h"

namespace moh::test {

/// A model of no family: layers of MohAttention with residual connections, of 6 heads of 4 on width 16; its
/// inputs are vectors, its outputs logits of 16 classes for each of them.
class AttentionModel final : public Model {
 public:
  static constexpr std::int64_t kWidth = 16, kHeads = 6, kHeadDim = 4;

  /// A layer for each routing, whose head count is kHeads.
  explicit AttentionModel(const std::vector<HeadRoutingOptions>& layers)
      : Model(DType::kFloat32), routing_(layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers_.push_back(
          std::make_unique<MohAttention>(MohAttentionOptions{.width = kWidth,
                                                             .heads = kHeads,
                                                             .head_dim = kHeadDim,
                                                             .routing = layers[i],
                                                             .layer = static_cast<std::int64_t>(i)},
                                         placement()));
      add_child("block" + std::to_string(i), *layers_.back());
    }
    initialise(3);
  }

  std::string_view family() const override { return "attention"; }
  void initialise(std::uint64_t seed) override {
    for (const NamedParameter& p : parameters())
      fill_normal(p.variable.value(), initialisation_key(seed, p.name), 0.0, init_std());
  }
  double init_std() const override { return 0.3; }
  std::vector<HeadRoutingOptions> routing() const override { return routing_; }
  std::vector<const HeadRouter*> routers() const override {
    std::vector<const HeadRouter*> routers;
    for (const auto& layer : layers_) routers.push_back(layer->router());
    return routers;
  }

  /// x [B, T, 16] to logits of the same shape.
  Variable forward(const Tensor& x, const ForwardContext& context) const {
    Variable y(x);
    for (const auto& layer : layers_) y = add(y, layer->forward(y, context).y);
    return y;
  }

 private:
  std::vector<HeadRoutingOptions> routing_;
  std::vector<std::unique_ptr<MohAttention>> layers_;
};

inline HeadRoutingOptions dense_routing() {
  constexpr std::int64_t kHeads = AttentionModel::kHeads;
  return {routers::kNone, {kHeads, kHeads, 0}};
}

inline HeadRoutingOptions learned_routing(std::int64_t num_shared, std::int64_t top_k) {
  return {routers::kLearned, {AttentionModel::kHeads, num_shared, top_k}};
}

inline Tensor normal_inputs(std::int64_t batch, std::int64_t tokens, std::uint64_t seed) {
  Tensor x = empty({batch, tokens, AttentionModel::kWidth}, DType::kFloat32);
  fill_normal(x, {seed, 0}, 0.0, 1.0);
  return x;
}

}  // namespace moh::test
