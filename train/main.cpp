#include "core/threads.h"
#include "train/apps/cli/cli.h"
#include "train/families/families.h"

int main(int argc, char** argv) {
  return moh::end_process(moh::cli::run(argc, argv, moh::families(), moh::cli::build_commit));
}
