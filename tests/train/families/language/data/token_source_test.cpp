#include "train/families/language/data/token_source.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "core/error.h"

using namespace moh;

namespace {

std::vector<TokenId> ids_read(const TokenSource& source, std::int64_t begin, std::int64_t count) {
  std::vector<TokenId> ids(static_cast<std::size_t>(count), -7);
  source.copy(begin, ids);
  return ids;
}

std::vector<TokenId> read_all(const TokenSource& source) {
  return ids_read(source, 0, source.size());
}

TokenSourcePtr tokens(std::vector<TokenId> ids) {
  return tokens_in_memory(ids, 1000);
}

}  // namespace

TEST_CASE("data: tokens in memory read back in each width") {
  const std::vector<TokenId> ids = {0, 1, 999, 65535};
  CHECK(read_all(*tokens_in_memory(ids, 65536)) == ids);
  CHECK(ids_read(*tokens_in_memory(ids, 65536), 2, 2) == std::vector<TokenId>{999, 65535});
  const std::vector<TokenId> narrow = {0, 255, 7};
  TokenMemory memory(256);
  memory.append(narrow);
  memory.append(std::vector<TokenId>{128});
  CHECK(read_all(*memory.finish()) == std::vector<TokenId>{0, 255, 7, 128});
  CHECK_THROWS_AS(tokens_in_memory(std::vector<TokenId>{256}, 256), InternalError);
  CHECK_THROWS_AS(tokens_in_memory(std::vector<TokenId>{7, -257}, 256), InternalError);
  const std::vector<TokenId> wide = {0, 70000, 128255};
  CHECK(read_all(*tokens_in_memory(wide, 128256)) == wide);
  CHECK_THROWS_AS(tokens_in_memory(wide, 70000), InternalError);
  CHECK_THROWS_AS(tokens_in_memory(std::vector<TokenId>{-128257, 7}, 128256), InternalError);
  CHECK_THROWS_AS(ids_read(*tokens({}), 0, 1), InternalError);
}

TEST_CASE("data: concatenated sources read alike at every place and length") {
  const std::vector<TokenSourcePtr> pieces = {tokens({1, 2, 3}), tokens({4}), tokens({}), tokens({5, 6})};
  for (const bool separated : {false, true}) {
    const auto joined = concatenate_tokens(pieces, separated ? std::optional<TokenId>(0) : std::nullopt);
    const std::vector<TokenId> whole =
        separated ? std::vector<TokenId>{1, 2, 3, 0, 4, 0, 0, 5, 6} : std::vector<TokenId>{1, 2, 3, 4, 5, 6};
    REQUIRE(joined->size() == static_cast<std::int64_t>(whole.size()));
    for (std::int64_t begin = 0; begin <= joined->size(); ++begin) {
      for (std::int64_t count = 0; begin + count <= joined->size(); ++count) {
        CHECK(ids_read(*joined, begin, count) ==
              std::vector<TokenId>(whole.begin() + begin, whole.begin() + begin + count));
      }
    }
    CHECK_THROWS_AS(ids_read(*joined, joined->size() - 1, 2), InternalError);
  }
  CHECK(concatenate_tokens({}, 0)->size() == 0);
}

TEST_CASE("data: a slice is a part of its source") {
  const auto slice = slice_tokens(tokens({1, 2, 3, 4, 5}), 1, 4);
  CHECK(read_all(*slice) == std::vector<TokenId>{2, 3, 4});
  CHECK(ids_read(*slice, 1, 1) == std::vector<TokenId>{3});
  CHECK_THROWS_AS(ids_read(*slice, 2, 2), InternalError);
  CHECK_THROWS_AS(slice_tokens(tokens({1}), 0, 2), InternalError);
}
