#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/families/translation/decode/beam_search.h"

using namespace moh;
using Json = nlohmann::json;

namespace {

/// As in make_beam_golden.py, to the bit.
std::vector<float> hashed_logits(std::uint64_t seed, const std::vector<TokenId>& tokens,
                                 const SearchVocabulary& vocabulary, std::int64_t size) {
  constexpr std::uint64_t kModulus = std::uint64_t{1} << 31;
  std::uint64_t state = seed + 1;
  for (const TokenId token : tokens)
    state = (state * 1103515245 + static_cast<std::uint64_t>(token) + 12345) % kModulus;
  std::vector<float> logits;
  for (std::uint64_t v = 0; v < static_cast<std::uint64_t>(size); ++v) {
    const std::uint64_t mixed = (state * (2 * v + 3) + 7919 * v + 1) % kModulus;
    logits.push_back(static_cast<float>((mixed * 48271 % kModulus) >> 16) / 4096);
  }
  logits[static_cast<std::size_t>(vocabulary.end)] += static_cast<float>(tokens.size()) / 4 - 0.5F;
  return logits;
}

std::vector<Hypothesis> searched(std::uint64_t seed, const BeamOptions& options, const Json& golden) {
  const auto size = golden.at("vocab").get<std::int64_t>();
  const SearchVocabulary vocabulary{golden.at("end"), size, {golden.at("start").get<TokenId>()}};
  BeamSearch search(options, vocabulary, golden.at("max_length"));
  std::vector<std::vector<TokenId>> rows(1);
  while (!search.is_done()) {
    std::vector<float> logits;
    for (const auto& tokens : rows) {
      const std::vector<float> of_row = hashed_logits(seed, tokens, vocabulary, size);
      logits.insert(logits.end(), of_row.begin(), of_row.end());
    }
    search.advance(logits);
    std::vector<std::vector<TokenId>> next;
    for (std::int64_t row = 0; row < search.rows(); ++row) {
      next.push_back(rows[static_cast<std::size_t>(search.parent(row))]);
      next.back().push_back(search.last_token(row));
    }
    rows = std::move(next);
  }
  return search.finished();
}

EarlyStopping early_stopping_of(const Json& value) {
  if (value.is_string()) return EarlyStopping::kNever;
  return value.get<bool>() ? EarlyStopping::kYes : EarlyStopping::kNo;
}

}  // namespace

TEST_CASE("beam search: hypotheses and scores are those of transformers") {
  std::ifstream file(MOH_SOURCE_DIR "/tests/train/families/translation/beam_golden.json");
  const Json golden = Json::parse(file);
  std::size_t compared = 0;
  for (const Json& of : golden.at("cases")) {
    const BeamOptions options{of.at("beams"), of.at("length_penalty"),
                              early_stopping_of(of.at("early_stopping"))};
    CAPTURE(options.beams, options.length_penalty, of.at("early_stopping").dump());
    std::uint64_t seed = 0;
    for (const Json& expected : of.at("sentences")) {
      CAPTURE(seed);
      const std::vector<Hypothesis> found = searched(seed++, options, golden);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i, ++compared) {
        CHECK(found[i].tokens == expected[i].at("tokens").get<std::vector<TokenId>>());
        if (options.beams > 1)
          CHECK(found[i].score == Approx(expected[i].at("score").get<double>()).epsilon(1e-6));
      }
    }
  }
  CHECK(compared == 1660);  // ten sentences with 1 beam, and 15 ways of searching with 2, 4 and 5
}
