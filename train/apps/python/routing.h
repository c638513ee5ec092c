#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "core/function_ref.h"
#include "core/tensor.h"
#include "models/forward_context.h"
#include "train/apps/python/open_model.h"

namespace moh::python {

/// A pass of a model, which calls the observer of the context.
using Forward = FunctionRef<void(const ForwardContext& context)>;

/// A list with, for each attention layer, the gates [B, T, H] float32 and which heads are selected, [B, T, H]
/// bool, as `moh analyze --dump` has them; None for a dense layer.
nanobind::object routing_of(OpenModel& model, Forward forward);

/// The input of an attention layer after its norm, [B, T, D] float32. Throws ValueError for a layer that the
/// model does not have.
Tensor layer_input_of(OpenModel& model, Forward forward, std::int64_t layer);

}  // namespace moh::python
