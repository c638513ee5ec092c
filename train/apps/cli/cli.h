#pragma once

#include <string_view>

#include "train/trainer/task/family.h"

namespace moh::cli {

/// The commit that the program was built from, "1374d53a0c with changes" where files differ from it; "" where
/// it is not known. Defined by a file that the build of the program `moh` writes (cmake/MohCommit.cmake).
extern const char* const build_commit;

/// Parses the arguments of the `moh` program and runs the command on models of these families; returns the
/// exit code. Never throws. `commit` is for --version.
int run(int argc, char** argv, const Families& families, std::string_view commit = "");

}  // namespace moh::cli
