#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "models/layers/attention_observer.h"

namespace moh {

/// Keeps how each attention layer routes its tokens in a forward pass, in the order of the layers: what a
/// HeadDump writes of them.
class RoutingRecord : public AttentionObserver {
 public:
  /// Both undefined in a dense layer.
  struct Layer {
    Tensor gates;     ///< [B, T, H] float32, factors of the heads' outputs, 0 where a head is not selected
    Tensor selected;  ///< [B, T, H] uint8, 1 where a token selects a head
  };

  void observe(const AttentionTrace& trace) override;
  std::vector<Layer> layers;
};

/// Keeps the input of one attention layer, after its norm, [B, T, D], in the model's dtype.
class LayerInputRecord : public AttentionObserver {
 public:
  explicit LayerInputRecord(std::int64_t layer) : layer_(layer) {}

  void observe(const AttentionTrace& trace) override {
    if (trace.layer == layer_) x = trace.x;
  }
  Tensor x;  ///< undefined while the layer has not run

 private:
  std::int64_t layer_;
};

}  // namespace moh
