#pragma once

#include "models/layers/router.h"

namespace moh {

// NOLINTNEXTLINE(readability-identifier-naming): constants, whose files define them
extern const RouterType kDenseLayer, kLearnedRouter, kQueryNormRouter, kConditionRouter, kStaticRouter;

/// The routers of this library as values of a configuration.
namespace routers {

inline constexpr RouterKey kNone{kDenseLayer};
inline constexpr RouterKey kLearned{kLearnedRouter};
inline constexpr RouterKey kQueryNorm{kQueryNormRouter};
inline constexpr RouterKey kCondition{kConditionRouter};
inline constexpr RouterKey kStatic{kStaticRouter};

}  // namespace routers

}  // namespace moh
