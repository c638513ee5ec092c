#pragma once

#include "train/trainer/task/family.h"

namespace moh {

/// Classifiers of images: `task: image_classification`.
const Family& image_family();

}  // namespace moh
