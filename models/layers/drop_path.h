#pragma once

#include "models/forward_context.h"
#include "ops/dropout/drop_path.h"
#include "ops/elementwise/add.h"

namespace moh {

/// x plus the output of a residual branch, which in training is dropped for a share `rate` of the samples.
inline Variable add_branch(const Variable& x, const Variable& branch, double rate,
                           const ForwardContext& context) {
  if (context.training && rate > 0) return add_drop_path(x, branch, rate, context.generator->next());
  return add(x, branch);
}

}  // namespace moh
