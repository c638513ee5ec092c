#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/tasks/language/data/old_token_file.h"
#include "train/tasks/language/data/token_file.h"

namespace {

void read(const std::string& bytes) {
  const moh::test::MemoryFile memory(bytes);
  try {
    const bool old = moh::token_file_kind(memory.path()) == moh::TokenFileKind::kOld;
    const auto file =
        old ? moh::open_old_token_file(memory.path(), true) : moh::TokenFile::open(memory.path());
    std::vector<moh::TokenId> ids(static_cast<std::size_t>(std::min<std::int64_t>(file->size(), 1 << 16)));
    file->copy(file->size() - static_cast<std::int64_t>(ids.size()), ids);
    describe(file->info());
  } catch (const moh::DataError&) {
  }
}

void put(std::string& bytes, std::size_t at, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

}  // namespace

/// The file as it is, and one of the earlier format with its two checksums put right, so that the reader gets
/// past those.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  constexpr std::size_t kHeader = 128, kOfIds = 56, kOfHeader = 120;
  if (size < kHeader || !bytes.starts_with("MOHTOKEN")) return 0;
  put(bytes, kOfIds, XXH3_64bits(bytes.data() + kHeader, size - kHeader));
  put(bytes, kOfHeader, XXH3_64bits(bytes.data(), kOfHeader));
  read(bytes);
  return 0;
}
