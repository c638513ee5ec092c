#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/tasks/images/label_names.h"
#include "train/tasks/images/timm_config.h"

namespace {

/// The text of a file that says what this one does. Throws for a file that is refused.
std::string written(const moh::ConfigJson& json) {
  const moh::ImageModelConfig config = moh::read_timm_config(json);
  return moh::timm_config(config, moh::read_label_names(json, config.classes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    // What is read can be written, and says the same.
    const std::string text = written(moh::ConfigJson(memory.path()));
    const moh::test::MemoryFile again(text);
    if (written(moh::ConfigJson(again.path())) != text) __builtin_trap();
  } catch (const moh::CheckpointError&) {
  } catch (const moh::ConfigError&) {
  }
  return 0;
}
