#pragma once

#include "train/trainer/task/family.h"

namespace moh {

/// The table: every family of this program. A new one is a class (train/trainer/task/family.h) and a line
/// here.
const Families& families();

}  // namespace moh
