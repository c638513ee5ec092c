#pragma once

#include <span>
#include <string>

#include "train/apps/status/run_status.h"

namespace moh {

/// A line for each run, in columns: folder, state, steps, time left or time since the last record, losses.
std::string status_text(std::span<const RunStatus> runs);
/// A JSON array of {"folder", "state", "step", "steps", "seconds_left", "seconds_since", "training",
/// "validation"}; null for what is not known.
std::string status_json(std::span<const RunStatus> runs);

}  // namespace moh
