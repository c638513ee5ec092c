#pragma once

namespace moh::cli {

/// Parses the arguments of the `moh` program and runs the command; returns the exit code. Never throws.
int run(int argc, char** argv);

}  // namespace moh::cli
