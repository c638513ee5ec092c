#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "train/apps/bench/step_bench.h"

namespace moh {

/// One JSON object with all fields and a newline. `config` and `overrides` are the command's arguments.
void write_json_line(std::ostream& out, const StepBenchRecord& record, const std::string& config,
                     const std::vector<std::string>& overrides);
/// Writes the record as a text table.
void write_table(std::ostream& out, const StepBenchRecord& record);

}  // namespace moh
