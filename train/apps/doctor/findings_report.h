#pragma once

#include <span>
#include <string>

#include "train/apps/doctor/findings.h"

namespace moh {

/// A line for each finding, under the one that says which program this is, and one for what is missing.
std::string findings_text(const std::string& program, std::span<const Finding> findings);
/// {"program": ..., "findings": {"GPU": {"found": ..., "missing": ...}, ...}}; null for what is empty.
std::string findings_json(const std::string& program, std::span<const Finding> findings);

}  // namespace moh
