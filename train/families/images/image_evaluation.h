#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/vision/image_model.h"
#include "train/families/images/class_counts.h"
#include "train/families/images/data/picture_batch.h"
#include "train/trainer/task/task.h"

namespace moh {

/// Evaluates a model on the pictures of `data`, made by `workers` threads: top-1, the score, top-5 where
/// there are more than five classes, and the loss, a mean of cross entropies. Returns nothing if `stop`
/// returned true. The processes take batches in turns; the result does not depend on their number.
std::optional<Evaluation> evaluate_image_model(const ImageModel& model, const EvaluationPictures& data,
                                               int workers, StopEvaluation stop, Communicator& processes);

}  // namespace moh
