#pragma once

#include <string>

#include "autograd/variable.h"

namespace moh {

/// The targets of an op on logits [..., V], ids of the leading axes' shape in [0, V) or kIgnoredTarget, as
/// int64. Throws as cross_entropy() does, naming `op`.
Tensor checked_targets(const std::string& op, const Variable& logits, const Tensor& targets);

}  // namespace moh
