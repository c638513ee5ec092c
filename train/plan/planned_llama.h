#pragma once

#include <optional>
#include <vector>

#include "models/llm/llama_config.h"
#include "train/plan/planned_ops.h"

namespace moh {

/// A Llama (models/llm/llama.h) without contents: its parameters, and a forward pass through the same ops in
/// the same order, whose results live as long as those of the model do.
class PlannedLlama {
 public:
  /// Parameters of `dtype`, counted in the ledger of `ops`, which outlives the object, and the rotary tables.
  PlannedLlama(const LlamaConfig& config, const PlannedOps& ops, DType dtype);

  const std::vector<PlannedVariable>& parameters() const { return parameters_; }

  /// The logits [B T, V], and the balance loss of each layer that has one.
  struct Output {
    PlannedVariable logits;
    std::vector<PlannedVariable> balances;
    std::vector<PlannedTensor> loads;
  };
  Output forward(std::int64_t sequences, std::int64_t length, bool training) const;

 private:
  struct Layer {
    HeadRoutingOptions routing;
    PlannedTensor head_order;  // undefined where the shared heads are the first ones
    PlannedVariable input_norm, q, k, v, o, wg, wg_0, wg_1, post_norm, gate, up, down;
  };
  struct HeadChoice {
    PlannedVariable gates;
    PlannedLists lists, lists_of_heads;
    PlannedRouting routing;
  };
  struct Projections {
    PlannedVariable q, k, v;
    std::optional<HeadChoice> choice;
  };
  struct LayerOutput {
    PlannedVariable y, balance;
    PlannedTensor load;
  };
  /// What a pass is about: [B, T] and the sizes of its attention.
  struct Pass {
    AttentionShape shape;
    bool training;
    std::int64_t tokens() const { return shape.batch * shape.queries; }
  };

  PlannedVariable parameter(std::int64_t numel);
  PlannedVariable router_parameter(std::int64_t rows);
  Layer make_layer(std::int64_t number);
  LayerOutput run_layer(const Layer& layer, const PlannedVariable& x, const Pass& pass) const;
  LayerOutput layer_forward(const Layer& layer, const PlannedVariable& x, const Pass& pass) const;
  LayerOutput attention(const Layer& layer, const PlannedVariable& x, const Pass& pass) const;
  Projections project(const Layer& layer, const PlannedVariable& x, const Pass& pass) const;
  HeadChoice choose_heads(const Layer& layer, const PlannedVariable& x, const PlannedVariable& q,
                          const Pass& pass) const;
  PlannedVariable mlp(const Layer& layer, const PlannedVariable& x, const Pass& pass) const;
  PlannedVariable dropped(const PlannedVariable& branch, const Pass& pass) const;

  LlamaConfig config_;
  const PlannedOps& ops_;
  DType dtype_;
  std::vector<PlannedVariable> parameters_;
  PlannedVariable embed_tokens_, norm_, lm_head_;
  std::vector<Layer> layers_;
  PlannedTensor rope_cos_, rope_sin_;
};

}  // namespace moh
