#pragma once

#include <functional>

#include "models/forward_context.h"
#include "models/layers/head_routing.h"
#include "models/recompute_level.h"

namespace moh {

/// Runs `layer`, a function of its input alone, and recomputes it in the backward pass where `level` says so.
/// What `layer` captures must live until the backward pass.
LayerOutput run_layer(RecomputeLevel level, const Variable& x, const ForwardContext& context,
                      const std::function<LayerOutput(const Variable&)>& layer);

}  // namespace moh
