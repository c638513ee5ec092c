#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace moh {

/// Gates of experts, and which of them are selected.
struct ExpertGates {
  Variable gates;   ///< sigmoid(z) of the selected experts, 0 of the others, in the shape of the logits
  Tensor selected;  ///< uint8, 1 where an expert is selected
};

/// The `top_k` largest of each `experts` consecutive logits z, and their sigmoids (SwitchHead, arXiv
/// 2312.07987). Ties go to the lowest expert; NaN ranks below every number. logits [..., U experts], float32
/// or float64; 1 <= top_k <= experts. Logits are compared, not sigmoids, of which large ones round to 1.
/// Gradients: none through the selection; dz = sigmoid(z) sigmoid(-z) dgate of the selected, 0 of the others.
/// Saves the logits and the gates. Throws ShapeError, DTypeError, ValueError.
ExpertGates sigmoid_top_k(const Variable& logits, std::int64_t experts, std::int64_t top_k);

}  // namespace moh
