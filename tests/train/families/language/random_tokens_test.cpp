#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "core/error.h"
#include "train/families/language/language_data.h"
#include "train/families/language/language_run.h"
#include "train/trainer/config/run_config.h"

using namespace moh;

TEST_CASE("bench: random tokens are a function of seed and place, and fill the vocabulary") {
  const auto tokens = random_tokens(1 << 30, 1000, 7), same = random_tokens(1 << 30, 1000, 7);
  std::vector<TokenId> ids(20000), again(100), other(20000);
  tokens->copy(0, ids);
  same->copy(300, again);
  CHECK(std::equal(again.begin(), again.end(), ids.begin() + 300));
  random_tokens(1 << 30, 1000, 8)->copy(0, other);
  CHECK(other != ids);
  std::sort(ids.begin(), ids.end());
  CHECK(ids.front() == 0);
  CHECK(ids.back() == 999);
  CHECK(std::unique(ids.begin(), ids.end()) - ids.begin() > 990);  // 20 of each on average
}

TEST_CASE("bench: made-up data hold one batch out and have no text") {
  LanguageRun language;
  language.model.vocab_size = 65536;
  language.data.sequence_length = 10;
  RunConfig run;
  run.train.batch_size = 3;
  run.family = FamilyValue(language);
  const auto data = open_language_data(run, DataUse::kSynthetic);
  CHECK(data->train.at(0).tokens->size() == 1 << 30);
  CHECK(data->validation.at(0).tokens->size() == 3 * 10 + 1);
  CHECK(data->tokenizer->vocab_size() == 65536);
  CHECK(data->tokenizer->token_bytes(65535).empty());
  std::vector<TokenId> ids;
  CHECK_THROWS_AS(data->tokenizer->encode("text", ids), DataError);
}
