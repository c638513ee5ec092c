#include "tests/mlp_family/mlp_family.h"
#include "train/apps/cli/cli.h"
#include "train/families/language/language_family.h"

/// The program with one family more.
int main(int argc, char** argv) {
  const moh::Families families({&moh::language_family(), &moh::test::mlp_family()});
  return moh::cli::run(argc, argv, families);
}
