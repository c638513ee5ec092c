#pragma once

#include <cstdint>

#include "models/layers/linear.h"
#include "models/layers/switch_head_config.h"
#include "models/module.h"

namespace moh {

struct HeadChoice;

/// Mixtures of experts in attention's values and outputs (SwitchHead, arXiv 2312.07987). Shapes: B sequences,
/// T tokens, D hidden, H query heads, G KV heads, d head width, E experts of a head, of which a token selects
/// those with the k largest logits. With x[t] the layer's input after its norm, and a[t, h] attention's
/// output of head h,
///   v[t, g] = sum over selected e of sigmoid(v_router[g, e] x[t]) (v_proj[g, e] x[t]),
///   y[t] = sum over h and selected e of sigmoid(o_router[h, e] x[t]) (o_proj[h, e] a[t, h]).
/// Parameters, without biases: `v_router.weight` [G E, D] and `o_router.weight` [H E, D]. Logits and gates
/// are float32 (float64 in a float64 model). The layer's v_proj [G E d, D] and o_proj [D, H E d] have the
/// experts of a head one after the other. On a CPU only selected experts are projected, where that is faster
/// (head_projection_pays); else, and on a GPU, all are.
class SwitchHead : public Module {
 public:
  SwitchHead(const SwitchHeadConfig& config, std::int64_t width, std::int64_t heads, std::int64_t kv_heads,
             std::int64_t head_dim, Placement placement);

  /// The values [B, T, G, d] of x [B, T, D]. `equal_rows`: see ForwardContext.
  Variable values(const Variable& x, const Linear& v_proj, bool equal_rows) const;
  /// The layer's output [B, T, D] for `heads` [B, T, H, d].
  Variable output(const Variable& x, const Variable& heads, const Linear& o_proj, bool equal_rows) const;

 private:
  /// Gates and pairs of the selected experts, [B, T, U E], and their lists where they alone are projected.
  HeadChoice choose(const Linear& router, const Variable& x, bool equal_rows) const;

  SwitchHeadConfig config_;
  std::int64_t kv_heads_, head_dim_;
  Linear v_router_, o_router_;
};

}  // namespace moh
