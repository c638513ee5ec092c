#pragma once

namespace moh {

/// Sigmoid gates of attention's output, before its output projection (Gated Attention, arXiv 2505.06708).
enum class AttentionGate {
  kNone,
  kHead,     ///< a gate for each token and head
  kElement,  ///< and for each element of the head's output
};

}  // namespace moh
