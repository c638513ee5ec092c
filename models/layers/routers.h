#pragma once

#include "models/layers/router.h"

namespace moh {

extern const RouterType kDenseLayer, kLearnedRouter, kQueryNormRouter, kConditionRouter;

/// The routers of this library as values of a configuration.
namespace routers {

inline constexpr RouterKey kNone{kDenseLayer};
inline constexpr RouterKey kLearned{kLearnedRouter};
inline constexpr RouterKey kQueryNorm{kQueryNormRouter};
inline constexpr RouterKey kCondition{kConditionRouter};

}  // namespace routers

}  // namespace moh
