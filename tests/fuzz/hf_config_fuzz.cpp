#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/families/language/hf/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    moh::read_hf_config(memory.path());
    moh::read_hf_token_ids(memory.path());
  } catch (const moh::CheckpointError&) {
  } catch (const moh::ConfigError&) {
  }
  try {
    moh::read_meta_params(memory.path(), 128);
  } catch (const moh::CheckpointError&) {
  } catch (const moh::ConfigError&) {
  }
  return 0;
}
