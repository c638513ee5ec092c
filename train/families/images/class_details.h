#pragma once

#include <memory>

#include "train/families/images/class_counts.h"
#include "train/families/images/data/picture_source.h"
#include "train/trainer/task/task.h"

namespace moh {

/// The counts of an evaluation by class, named by the source of its pictures: a table of classes, of many
/// those that are told worst; as JSON all of them with the confusion: {"classes": [{"name", "images", "top1",
/// "top5"}], "confusion": [[label, predicted, images]]}, the latter for pairs that occur.
std::shared_ptr<const EvaluationDetails> class_details(ClassCounts counts, PictureSourcePtr source);

}  // namespace moh
