#include "core/math_mode.h"

#include <utility>

namespace moh {

namespace {
thread_local MathMode mode_in_use;
}

MathMode math_mode() {
  return mode_in_use;
}

MathModeScope::MathModeScope(MathMode mode) : previous_(std::exchange(mode_in_use, mode)) {}

MathModeScope::~MathModeScope() {
  mode_in_use = previous_;
}

}  // namespace moh
