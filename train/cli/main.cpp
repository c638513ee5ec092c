#include "train/cli/cli.h"

int main(int argc, char** argv) {
  return moh::cli::run(argc, argv);
}
