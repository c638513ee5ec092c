#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/families/images/timm_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    // A configuration that was read can be written, and means the same.
    const moh::ImageRun config = moh::read_timm_config(moh::ConfigJson(memory.path()));
    const std::string text = moh::timm_config(config);
    const moh::test::MemoryFile written(text);
    if (moh::timm_config(moh::read_timm_config(moh::ConfigJson(written.path()))) != text) __builtin_trap();
  } catch (const moh::CheckpointError&) {
  } catch (const moh::ConfigError&) {
  }
  return 0;
}
