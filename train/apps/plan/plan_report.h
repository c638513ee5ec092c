#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "train/apps/plan/training_plan.h"

namespace moh {

/// One JSON object with all fields and a newline. `config` and `overrides` are the command's arguments.
void write_json_line(std::ostream& out, const TrainingPlan& plan, const std::string& config,
                     const std::vector<std::string>& overrides);
/// Writes the plan as a text table.
void write_table(std::ostream& out, const TrainingPlan& plan);

}  // namespace moh
