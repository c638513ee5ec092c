#pragma once

#include "train/tasks/family.h"

namespace moh {

/// Language models of the LLaMA family: `task: language_model`.
const Family& language_family();

}  // namespace moh
