#include "train/tasks/language/random_tokens.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "core/error.h"

using namespace moh;

TEST_CASE("bench: random tokens are a function of seed and place, and fill the vocabulary") {
  const auto data = random_language_data(1000, 7), same = random_language_data(1000, 7);
  std::vector<TokenId> ids(20000), again(100), other(20000);
  data->train->copy(0, ids);
  same->train->copy(300, again);
  CHECK(std::equal(again.begin(), again.end(), ids.begin() + 300));
  random_language_data(1000, 8)->train->copy(0, other);
  CHECK(other != ids);
  std::sort(ids.begin(), ids.end());
  CHECK(ids.front() == 0);
  CHECK(ids.back() == 999);
  CHECK(std::unique(ids.begin(), ids.end()) - ids.begin() > 990);  // 20 of each on average
}

TEST_CASE("bench: random tokens hold nothing out and have no text") {
  const auto data = random_language_data(65536, 1);
  CHECK(data->validation->size() == 0);
  CHECK(data->tokenizer->vocab_size() == 65536);
  CHECK(data->tokenizer->token_bytes(65535).empty());
  std::vector<TokenId> ids;
  CHECK_THROWS_AS(data->tokenizer->encode("text", ids), DataError);
}
