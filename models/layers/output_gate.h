#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/layers/attention_gate.h"
#include "models/layers/linear.h"
#include "models/model.h"

namespace moh {

/// The gates of one attention layer (arXiv 2505.06708, position G1): heads[t, h] *= sigmoid(W x[t]), where x
/// [B, T, D] is the layer's input after its norm and W, without bias, is the layer's parameter
/// `output_gate.weight` [H, D], or [H d, D] for a gate of each element. Heads that a router leaves out stay
/// zeros.
class OutputGate : public Module {
 public:
  /// Without a parameter where `gate` is kNone.
  OutputGate(AttentionGate gate, std::int64_t width, std::int64_t heads, std::int64_t head_dim,
             Placement placement);

  /// heads [B, T, H, d] times their gates; as they are with kNone.
  Variable operator()(const Variable& x, const Variable& heads) const;

 private:
  std::optional<Linear> map_;  // absent with kNone
};

/// The gate of a layer, and the weight of the output projection after it.
struct GatedProjection {
  NamedParameter gate, projection;
};
/// Matrices of all gated layers, with their names in parameters().
std::vector<GatedProjection> gated_projections(const Model& model);

/// Gives gates that are added to a trained model the values with which it computes what it did: the gates'
/// weights become 0, so that every gate is 1/2, and the output projections twice themselves. Products with
/// powers of two are exact, so the outputs keep their bits, barring overflow.
void start_gates(const std::vector<GatedProjection>& gates);

/// The gates of a layer by the tensors of a file: `rows` of its output_gate.weight, 0 without one, and
/// `width` of all heads.
AttentionGate gate_of_rows(std::int64_t rows, std::int64_t width);

}  // namespace moh
