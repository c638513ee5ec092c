#include <array>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/families/language/language_run.h"
#include "train/trainer/config/load_run_config.h"

/// A configuration; one that is accepted is printed, and must be accepted again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::LanguageRun language;
  // Not families(), which would bring the kernels along.
  const std::array<const moh::FamilyConfig*, 1> families{&language};
  const moh::test::MemoryFile memory(data, size);
  moh::RunConfig run;
  try {
    run = moh::load_run_config(memory.path(), {}, families);
  } catch (const moh::ConfigError&) {
    return 0;
  }
  const moh::test::MemoryFile printed(moh::print_resolved(run));
  moh::load_run_config(printed.path(), {}, families);
  return 0;
}
