#pragma once

#include "train/tasks/family.h"

namespace moh {

/// `task: diffusion`: class-conditional diffusion transformers.
const Family& diffusion_family();

}  // namespace moh
