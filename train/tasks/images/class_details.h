#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/tasks/images/image_evaluation.h"
#include "train/tasks/task.h"

namespace moh {

/// The counts of an evaluation by class: a table of classes, of many those that are told worst; as JSON all
/// of them with the confusion: {"classes": [{"name", "images", "top1", "top5"}], "confusion": [[label,
/// predicted, images]]}, the latter for pairs that occur.
std::shared_ptr<const EvaluationDetails> class_details(ClassCounts counts, std::vector<std::string> names);

}  // namespace moh
