#pragma once

#include "core/random.h"

namespace moh {

/// What a forward pass is for.
struct ForwardContext {
  bool training = false;           ///< dropout is on
  Generator* generator = nullptr;  ///< where dropout draws from; needed when training with dropout
};

}  // namespace moh
