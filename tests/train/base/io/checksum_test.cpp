#include "train/base/io/checksum.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <span>
#include <vector>

namespace moh {

TEST_CASE("io: checksum: of nothing, as XXH3 defines it") {
  CHECK(checksum_hex("") == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("io: checksum: the pieces of a stream do not matter, each of its bits does") {
  std::vector<unsigned char> bytes(10'000);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  const auto all = std::as_bytes(std::span(bytes));
  Checksum stream;
  std::size_t at = 0;
  for (std::size_t size : {1, 63, 0, 2000, 7936}) {
    stream.update(all.subspan(at, size));
    at += size;
  }
  REQUIRE(at == all.size());
  const std::string whole = checksum_hex(all);
  CHECK(stream.hex() == whole);
  for (std::size_t flipped : {0, 5000, 9999}) {
    bytes[flipped] ^= 0x10;
    CHECK(checksum_hex(all) != whole);
    bytes[flipped] ^= 0x10;
  }
}

}  // namespace moh
