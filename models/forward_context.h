#pragma once

#include "core/random.h"

namespace moh {

class AttentionObserver;

/// What a forward pass is for.
struct ForwardContext {
  bool training = false;                  ///< dropout is on
  Generator* generator = nullptr;         ///< where dropout draws from; needed when training with dropout
  AttentionObserver* observer = nullptr;  ///< is shown what each attention layer computes
};

}  // namespace moh
