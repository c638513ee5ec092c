#pragma once

#include <memory>

#include "models/vision/image_model.h"
#include "train/trainer/task/predictor.h"

namespace moh {

struct RunConfig;

/// Tells what pictures of JPEG and PNG files show, which it sees as an evaluation does. Throws as
/// class_names_of().
std::unique_ptr<Predictor> image_predictor(const RunConfig& run, const ImageModel& model);

}  // namespace moh
