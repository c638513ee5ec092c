#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/config/load_run_config.h"

namespace {

moh::ModelPresets presets() {
  return {.names = {"tiny"}, .get = [](std::string_view) { return moh::ModelConfig{}; }};
}

}  // namespace

/// A configuration; one that is accepted is printed, and must be accepted again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  moh::RunConfig run;
  try {
    run = moh::load_run_config(memory.path(), {}, presets());
  } catch (const moh::ConfigError&) {
    return 0;
  }
  const moh::test::MemoryFile printed(moh::print_resolved(run));
  moh::load_run_config(printed.path(), {}, presets());
  return 0;
}
