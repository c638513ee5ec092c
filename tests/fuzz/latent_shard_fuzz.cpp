#include <string>
#include <vector>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/families/diffusion/latents/latent_shard.h"

namespace {

/// Opens a shard, and reads what it has of latents of a sensible size.
void read(const std::string& path) {
  const moh::LatentShard shard(path);
  const auto elements = static_cast<std::size_t>(shard.info().elements());
  std::vector<float> mean(elements), deviation(elements);
  for (std::int64_t i = 0; i < shard.info().count; ++i) {
    if (shard.label(i) < 0 || shard.label(i) >= std::ssize(shard.info().class_names)) __builtin_trap();
    shard.read(i, moh::LatentView::kMirrored, mean, deviation);
  }
}

/// The file with the checksum that it should have, where it has the place for it.
std::string put_right(std::string bytes, const std::string& path) {
  constexpr std::string_view kKey = "\"checksum\":\"";
  constexpr std::size_t kDigits = 32;
  const std::size_t at = bytes.find(kKey);
  if (at == std::string::npos || bytes.size() - at - kKey.size() < kDigits) return "";
  return bytes.replace(at + kKey.size(), kDigits, moh::LatentShard::computed_checksum(path));
}

}  // namespace

/// The file as it is, and with its checksum put right, so that the reader gets past it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const moh::test::MemoryFile memory(bytes);
  try {
    read(memory.path());
  } catch (const moh::DataError&) {
  }
  try {
    const std::string right = put_right(bytes, memory.path());
    if (right.empty()) return 0;
    const moh::test::MemoryFile again(right);
    read(again.path());
  } catch (const moh::DataError&) {
  }
  return 0;
}
