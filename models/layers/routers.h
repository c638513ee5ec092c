#pragma once

#include "models/layers/router.h"

namespace moh {

extern const RouterType kDenseLayer, kLearnedRouter, kQueryNormRouter;

/// The routers of this library as values of a configuration.
namespace routers {

inline constexpr RouterKey kNone{kDenseLayer};
inline constexpr RouterKey kLearned{kLearnedRouter};
inline constexpr RouterKey kQueryNorm{kQueryNormRouter};

}  // namespace routers

}  // namespace moh
