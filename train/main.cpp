#include <unistd.h>

#include <cstdio>

#include "core/threads.h"
#include "train/apps/cli/cli.h"
#include "train/families/families.h"

int main(int argc, char** argv) {
  const int code = moh::cli::run(argc, argv, moh::families(), moh::cli::build_commit);
  if (!moh::left_threads_behind()) return code;
  std::fflush(nullptr);
  ::_exit(code);
}
