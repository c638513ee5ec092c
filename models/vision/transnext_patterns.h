#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "ops/attention/aggregated_attention.h"

namespace moh {

/// Operands of aggregated_attention(), or of cosine_attention_packed(), where `local` and `window_bias` are
/// undefined, and `q` and `pooled` are both the packed projection.
struct AttentionPatterns {
  Tensor q;                                            ///< [B, N, H or more, d]
  Tensor local;                                        ///< [B, N, 2 H, d]
  Tensor pooled;                                       ///< [B, M, H or more, d]
  std::int64_t first_key = 0;                          ///< head of `pooled` that has the keys of head 0
  Tensor query_embedding, temperature, position_bias;  ///< of CosineParameters
  Tensor window_bias;                                  ///< [H, w^2]
  TokenGrid grid;
  std::int64_t kept_percent = 100;

  /// The probabilities of an image, [N, H, w^2 + M] in float32 on the CPU, w^2 = 0 in full attention: the
  /// softmax of aggregated_attention(), 0 for neighbours outside of the image. The learned weights of
  /// neighbours, which are added to it, are no probabilities, and left out.
  Tensor of_image(std::int64_t image) const;
};

}  // namespace moh
