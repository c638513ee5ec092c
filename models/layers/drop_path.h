#pragma once

#include <utility>

#include "models/forward_context.h"
#include "ops/norm/residual_branch.h"

namespace moh {

/// The output of a residual branch, which in training is dropped for a share `rate` of the samples.
inline ResidualBranch branch_of(Variable output, double rate, const ForwardContext& context) {
  if (context.training && rate > 0) return {std::move(output), rate, context.generator->next()};
  return {std::move(output)};
}

}  // namespace moh
