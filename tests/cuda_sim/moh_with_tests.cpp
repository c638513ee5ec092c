#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <string_view>

#include "core/threads.h"
#include "train/apps/cli/cli.h"
#include "train/families/families.h"

/// moh, with the tests of a GPU as a command, cuda_tests: a bundle has the device code, and what both run,
/// once.
int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("cuda_tests")) return Catch::Session().run(argc - 1, argv + 1);
  return moh::end_process(moh::cli::run(argc, argv, moh::families(), moh::cli::build_commit));
}
