#pragma once

#include "train/trainer/task/family.h"

namespace moh::test {

/// A family that the program does not know: an MLP that tells apart classes of made-up points. It shows what
/// a family has to bring, and that the commands need no more (`task: mlp_classifier`).
const Family& mlp_family();

}  // namespace moh::test
