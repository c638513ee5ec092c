#pragma once

#include "train/trainer/task/family.h"

namespace moh {

/// `task: diffusion`: class-conditional diffusion transformers.
const Family& diffusion_family();

}  // namespace moh
