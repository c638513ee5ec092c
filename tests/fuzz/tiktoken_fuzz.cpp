#include <string>
#include <string_view>

#include "core/error.h"
#include "tests/fuzz/encode_sample.h"
#include "tests/support/temporary_folder.h"
#include "train/tokenizers/tiktoken.h"

namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The ranks 0 ... 255 of the single bytes.
std::string ranks_of_bytes() {
  std::string ranks;
  for (unsigned byte = 0; byte < 256; ++byte)
    ranks += std::string{kDigits[byte >> 2], kDigits[byte << 4 & 63]} + "== " + std::to_string(byte) + '\n';
  return ranks;
}

void read(const std::filesystem::path& ranks) {
  try {
    moh::test::encode_sample(*moh::read_tiktoken(ranks));
  } catch (const moh::DataError&) {
  }
}

}  // namespace

/// The first line is a tiktoken.json, what follows are the ranks beside: as they are, and, as a file without
/// all single bytes is refused, once more behind those of the bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const moh::TemporaryFolder folder;
  static const std::string bytes = ranks_of_bytes();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), size);
  const std::string ranks(input.substr(std::min(line + 1, size)));
  moh::write_file(folder / "tiktoken.json", input.substr(0, line));
  moh::write_file(folder / "tokenizer.model", ranks);
  read(folder / "tokenizer.model");
  moh::write_file(folder / "tokenizer.model", bytes + ranks);
  read(folder / "tokenizer.model");
  return 0;
}
