#pragma once

#include <functional>
#include <vector>

#include "models/forward_context.h"
#include "models/layers/head_routing.h"
#include "models/layers/residual_stream.h"
#include "models/recompute_level.h"

namespace moh {

/// Runs `layer`, a function of its inputs alone, and recomputes it in the backward pass where `level` says
/// so. What `layer` captures must live until the backward pass.
LayerOutput run_layer(RecomputeLevel level, const std::vector<Variable>& inputs,
                      const ForwardContext& context,
                      const std::function<LayerOutput(const std::vector<Variable>&)>& layer);
/// run_layer() for one input.
LayerOutput run_layer(RecomputeLevel level, const Variable& x, const ForwardContext& context,
                      const std::function<LayerOutput(const Variable&)>& layer);

/// Likewise for a layer between residual streams, and of what else its tokens are computed from, `condition`,
/// which may be undefined. A layer that is recomputed keeps its inputs, and so begins and ends with a sum.
StreamOutput run_layer(
    RecomputeLevel level, ResidualStream stream, const Variable& condition, const ForwardContext& context,
    const std::function<StreamOutput(ResidualStream stream, const Variable& condition)>& layer);

}  // namespace moh
