#pragma once

#include "train/tasks/family.h"

namespace moh::cli {

/// Parses the arguments of the `moh` program and runs the command on models of these families; returns the
/// exit code. Never throws.
int run(int argc, char** argv, const Families& families);

}  // namespace moh::cli
