#pragma once

#include "train/tasks/family.h"

namespace moh {

/// The table: every family of this program. A new one is a class (train/tasks/family.h) and a line here.
const Families& families();

}  // namespace moh
