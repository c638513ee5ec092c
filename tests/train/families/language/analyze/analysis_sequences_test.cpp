#include "train/families/language/analyze/analysis_sequences.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "core/error.h"
#include "tests/support/message_of.h"

using namespace moh;

namespace {

/// 0, 1, 2, ...
TokenSourcePtr counting(std::int64_t size) {
  std::vector<TokenId> ids(static_cast<std::size_t>(size));
  std::iota(ids.begin(), ids.end(), 0);
  return tokens_in_memory(ids, std::max<std::int64_t>(size, 1));
}

struct Found {
  std::vector<std::int64_t> first_tokens, lengths;
  std::vector<bool> for_similarity;
};

Found read(const AnalysisSequences& sequences) {
  Found found;
  for (std::int64_t i = 0; i < sequences.size(); ++i) {
    const AnalysisPass batch = sequences.at(i);
    const Tensor& tokens = batch.tokens.front().ids;
    for (std::int64_t row = 0; row < tokens.dim(0); ++row) {
      const std::span<std::int64_t> ids = tokens.select(row).span<std::int64_t>();
      for (std::size_t t = 1; t < ids.size(); ++t) REQUIRE(ids[t] == ids[t - 1] + 1);
      found.first_tokens.push_back(ids[0]);
      found.lengths.push_back(tokens.dim(1));
    }
    found.for_similarity.insert(found.for_similarity.end(), batch.for_similarity.begin(),
                                batch.for_similarity.end());
  }
  return found;
}

}  // namespace

TEST_CASE("analyze: all of a stream, every token once") {
  const AnalysisSequences sequences(counting(23), {5, 3, 0, 1});
  CHECK(sequences.num_tokens() == 23);
  CHECK(sequences.size() == 3);  // 3 sequences, 1 sequence, the rest
  const Found found = read(sequences);
  CHECK(found.first_tokens == std::vector<std::int64_t>{0, 5, 10, 15, 20});
  CHECK(found.lengths == std::vector<std::int64_t>{5, 5, 5, 5, 3});
  CHECK(read(AnalysisSequences(counting(23), {5, 3, 100, 1})).lengths == found.lengths);
}

TEST_CASE("analyze: part of a stream is spread over all of it") {
  const AnalysisSequences sequences(counting(43), {4, 2, 12, 8});
  CHECK(sequences.num_tokens() == 12);
  CHECK(sequences.num_similarity_tokens() == 8);
  const Found found = read(sequences);
  CHECK(found.first_tokens == std::vector<std::int64_t>{0, 12, 24});  // of ten windows: 0, 3, 6
  CHECK(found.for_similarity == std::vector<bool>{false, true, true});
  CHECK(AnalysisSequences(counting(43), {4, 2, 13, 8}).num_tokens() == 16);  // whole windows
  // Every other one of ten.
  CHECK(read(AnalysisSequences(counting(40), {4, 3, 0, 20})).for_similarity ==
        std::vector<bool>{false, true, false, true, false, true, false, true, false, true});
}

TEST_CASE("analyze: a stream that is shorter than one sequence") {
  const AnalysisSequences sequences(counting(3), {5, 3, 2, 1});
  CHECK(sequences.num_tokens() == 3);
  CHECK(sequences.num_similarity_tokens() == 3);
  const Found found = read(sequences);
  CHECK(found.lengths == std::vector<std::int64_t>{3});
  CHECK(found.for_similarity == std::vector<bool>{true});
}

TEST_CASE("analyze: tokens are counted where they are read") {
  std::vector<std::int64_t> counts(9);
  const std::vector<TokenId> ids = {1, 1, 8, 3, 1, 0};
  count_tokens(AnalysisSequences(tokens_in_memory(ids, 9), {4, 1, 0, 1}), counts);
  CHECK(counts == std::vector<std::int64_t>{1, 3, 0, 1, 0, 0, 0, 0, 1});
  std::vector<std::int64_t> few(8);
  CHECK(message_of<DataError>([&] {
          count_tokens(AnalysisSequences(tokens_in_memory(ids, 9), {4, 1, 0, 1}), few);
        }) == "analyze: token id: expected below the vocabulary's 8, found 8");
}

TEST_CASE("analyze: sizes and streams that will not do") {
  CHECK(message_of<ValueError>([] {
          AnalysisSequences(counting(9), {4, 1, -1, 1});
        }) == "analyze: tokens of a source: expected at least 0, found -1");
  CHECK(message_of<ValueError>([] {
          AnalysisSequences(counting(9), {4, 1, 0, 0});
        }) == "analyze: tokens for the similarity of heads: expected at least 1, found 0");
  CHECK(message_of<DataError>([] {
          AnalysisSequences(counting(0), {4, 1, 0, 1});
        }) == "analyze: text: expected at least one token, found none");
}
