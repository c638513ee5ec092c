#pragma once

#include "core/error.h"
#include "models/forward_context.h"
#include "ops/dropout/dropout.h"

namespace moh {

/// dropout() with probability p in training, by the context's generator; else x.
inline Variable dropped(const Variable& x, double p, const ForwardContext& context) {
  if (!context.training || p == 0.0) return x;
  MOH_CHECK(context.generator != nullptr, "training with dropout needs a generator");
  return dropout(x, p, context.generator->next());
}

}  // namespace moh
