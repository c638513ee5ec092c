#include "train/families/translation/decode/translate_sentences.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "core/error.h"
#include "tests/models/translation/tiny_translation.h"

using namespace moh;
using namespace moh::test;
using Catch::Contains;

namespace {

using Sentences = std::vector<std::vector<TokenId>>;

const Sentences five_sentences = {{3, 4, 5, 6}, {7}, {8, 9, 10, 11, 12, 3}, {4, 4}, {5, 12, 7, 9, 3}};
constexpr SentenceMarks kMarianMarks = {.end = 1, .decoder_start = 2};

std::vector<std::vector<Hypothesis>> translations(const TranslationModel& model, const Sentences& sentences,
                                                  const TranslateOptions& options) {
  return translate_sentences(model, kMarianMarks, kTranslationVocab, sentences, options);
}

/// The logits after each row of tokens, by whole forward passes.
std::vector<float> logits_without_cache(const TranslationModel& model, const std::vector<TokenId>& source,
                                        const Sentences& rows) {
  std::vector<float> logits;
  for (const std::vector<TokenId>& row : rows) {
    const std::vector<SentencePair> pair = {{source, row}};
    const Tensor all = model.forward(pack_pairs(pair)).logits.value().select(0);
    const std::span<const float> last = all.span<float>().last(kTranslationVocab);
    logits.insert(logits.end(), last.begin(), last.end());
  }
  return logits;
}

/// Beam search of one sentence that computes everything anew in each step.
std::vector<Hypothesis> searched_without_cache(const TranslationModel& model, std::vector<TokenId> source,
                                               const TranslateOptions& options) {
  source.push_back(kMarianMarks.end);
  BeamSearch search(options.beam, {kMarianMarks.end, kTranslationVocab, {kMarianMarks.decoder_start}},
                    options.max_length);
  Sentences rows = {{kMarianMarks.decoder_start}};
  while (!search.is_done()) {
    search.advance(logits_without_cache(model, source, rows));
    Sentences next;
    for (std::int64_t row = 0; row < search.rows(); ++row) {
      next.push_back(rows[static_cast<std::size_t>(search.parent(row))]);
      next.back().push_back(search.last_token(row));
    }
    rows = std::move(next);
  }
  return search.finished();
}

}  // namespace

TEST_CASE("translate: searches with caches, of a batch, find what those without find alone") {
  for (const TranslationKind& kind : translation_kinds()) {
    TranslationModel model(kind.config, DType::kFloat32);
    fill_translation(model, 5);
    for (const std::int64_t beams : {1, 4}) {
      INFO(kind.name << ", " << beams << " beams");
      const TranslateOptions options{.beam = {.beams = beams, .length_penalty = 0.8}, .max_length = 9};
      const auto found = translations(model, five_sentences, options);
      REQUIRE(found.size() == five_sentences.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        const auto expected = searched_without_cache(model, five_sentences[i], options);
        REQUIRE(found[i].size() == static_cast<std::size_t>(beams));
        REQUIRE(expected.size() == found[i].size());
        for (std::size_t k = 0; k < expected.size(); ++k) {
          CHECK(found[i][k].tokens == expected[k].tokens);
          CHECK(found[i][k].score == Approx(expected[k].score).epsilon(1e-4));
          CHECK(std::ranges::count(found[i][k].tokens, kMarianMarks.decoder_start) == 0);
        }
      }
    }
  }
}

TEST_CASE("translate: the batch changes rounding alone") {
  for (const TranslationKind& kind : translation_kinds()) {
    INFO(kind.name);
    TranslationModel model(kind.config, DType::kFloat32);
    fill_translation(model, 6);
    const TranslateOptions options{.beam = {.beams = 3}, .max_length = 8};
    const auto together = translations(model, five_sentences, options);
    for (std::size_t i = 0; i < five_sentences.size(); ++i) {
      const auto alone = translations(model, {five_sentences[i]}, options).front();
      REQUIRE(alone.size() == together[i].size());
      for (std::size_t k = 0; k < alone.size(); ++k) {
        CHECK(alone[k].tokens == together[i][k].tokens);
        CHECK(alone[k].score == Approx(together[i][k].score).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("translate: lengths") {
  TranslationConfig config = tiny_translation();
  config.max_positions = 80;
  TranslationModel model(config, DType::kFloat32);
  fill_translation(model, 7);
  const auto longest = [&](const std::vector<TokenId>& source, std::int64_t max_length) {
    // A vocabulary without the end: only the greatest length ends a hypothesis.
    const SentenceMarks marks = {.end = 16, .decoder_start = 16};
    const TranslateOptions options{.beam = {.beams = 2}, .max_length = max_length};
    const auto found = translate_sentences(model, marks, 16, Sentences{source}, options);
    std::size_t most = 0;
    for (const Hypothesis& hypothesis : found.front()) most = std::max(most, hypothesis.tokens.size() + 1);
    return static_cast<std::int64_t>(most);
  };
  CHECK(longest({3, 4}, 0) == 3 + kLengthMargin);
  CHECK(longest(std::vector<TokenId>(60, 3), 0) == 80);
  CHECK(longest({3, 4}, 7) == 7);
  CHECK(longest({3, 4}, 1) == 1);
  CHECK(longest({3, 4}, 1000) == 80);
  CHECK_NOTHROW(longest(std::vector<TokenId>(79, 3), 2));
  CHECK_THROWS_WITH(longest(std::vector<TokenId>(80, 3), 2),
                    Contains("source sentence: expected at most 80 tokens with its end, found 81"));
}
