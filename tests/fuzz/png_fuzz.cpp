#include <zlib.h>

#include <vector>

#include "tests/fuzz/decode_bytes.h"

namespace {

/// A file whose chunks have the checksums of their contents, as far as their lengths lead.
std::vector<std::uint8_t> with_checksums(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> file(data, data + size);
  for (std::size_t at = 8; at + 12 <= size;) {
    const std::size_t length = std::size_t{file[at]} << 24 | std::size_t{file[at + 1]} << 16 |
                               std::size_t{file[at + 2]} << 8 | std::size_t{file[at + 3]};
    if (length > size - at - 12) break;
    const auto sum = ::crc32(0, &file[at + 4], static_cast<uInt>(length + 4));
    for (std::size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<std::uint8_t>(sum >> (8 * (3 - i)));
    at += length + 12;
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moh::test::decode_bytes(data, size);
  const std::vector<std::uint8_t> file = with_checksums(data, size);
  return moh::test::decode_bytes(file.data(), file.size());
}
