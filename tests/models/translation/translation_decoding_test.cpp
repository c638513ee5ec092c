// Decoding with caches: its logits are those of the forward pass over the tokens so far, whatever becomes of
// the rows on the way.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "core/error.h"
#include "tests/models/translation/tiny_translation.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

using Ids = std::vector<std::int64_t>;

/// Hypotheses of sentences, token by token, and what the forward pass says of each.
struct Hypotheses {
  const TranslationModel& model;
  const TranslationText& text;  ///< its sources
  std::vector<std::size_t> sentences;
  std::vector<std::vector<std::int32_t>> tokens;

  Hypotheses(const TranslationModel& of, const TranslationText& from, std::vector<std::size_t> each)
      : model(of), text(from), sentences(std::move(each)), tokens(sentences.size()) {}

  Tensor append(const std::vector<std::int32_t>& next) {
    Ids ids;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      tokens[row].push_back(next[row]);
      ids.push_back(next[row]);
    }
    return tensor_of<std::int64_t>({static_cast<std::int64_t>(ids.size())}, ids);
  }
  void select(const Ids& rows) {
    const Hypotheses before = *this;
    tokens.clear();
    sentences.clear();
    for (const std::int64_t row : rows) {
      tokens.push_back(before.tokens[static_cast<std::size_t>(row)]);
      sentences.push_back(before.sentences[static_cast<std::size_t>(row)]);
    }
  }
  void check(const Tensor& logits) const {
    REQUIRE(logits.shape() == Shape{static_cast<std::int64_t>(tokens.size()), kTranslationVocab});
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const std::vector<SentencePair> pair = {{text.sources[sentences[row]], tokens[row]}};
      const Tensor all = model.forward(pack_pairs(pair)).logits.value().select(0);
      const Tensor last = all.select(all.dim(0) - 1), found = logits.select(static_cast<std::int64_t>(row));
      for (std::int64_t i = 0; i < last.numel(); ++i)
        CHECK(found.data<double>()[i] == Approx(last.data<double>()[i]).epsilon(1e-9).margin(1e-10));
    }
  }
};

Tensor joined(const TranslationText& text, Ids& lengths) {
  Ids all;
  for (const std::vector<std::int32_t>& source : text.sources) {
    all.insert(all.end(), source.begin(), source.end());
    lengths.push_back(static_cast<std::int64_t>(source.size()));
  }
  return tensor_of<std::int64_t>({static_cast<std::int64_t>(all.size())}, all);
}

}  // namespace

TEST_CASE("translation decoding: logits are those of the forward pass, also after rows changed places") {
  const TranslationText text = some_translations({{4, 1}, {1, 1}, {6, 1}});
  for (const TranslationKind& kind : translation_kinds()) {
    for (const NormPlace norm : {NormPlace::kAfter, NormPlace::kBefore}) {
      INFO(kind.name << ", norm " << static_cast<int>(norm));
      TranslationConfig c = kind.config;
      c.norm = norm;
      c.output_bias = true;
      c.position_offset = 2;
      c.positions = norm == NormPlace::kAfter ? PositionKind::kSinusoidal : PositionKind::kLearned;
      TranslationModel model(c, DType::kFloat64);
      fill_translation(model, 1);
      Ids lengths;
      const Tensor source = joined(text, lengths);
      Decoding decoding = model.begin(model.encode(source, lengths), {0, 0, 1, 2, 2}, 7);
      Hypotheses hypotheses(model, text, {0, 0, 1, 2, 2});
      const auto step = [&](const std::vector<std::int32_t>& next) {
        hypotheses.check(model.step(hypotheses.append(next), decoding));
      };
      const auto select = [&](const Ids& rows) {
        decoding.select(rows);
        hypotheses.select(rows);
      };
      step({2, 2, 2, 2, 2});
      step({3, 4, 5, 6, 7});
      select({1, 0, 2, 4, 4});  // beams in another order, one of them twice
      step({8, 9, 10, 11, 12});
      select({0, 3, 4});  // a sentence is done, and a beam of another
      CHECK(decoding.sentence_of_row() == Ids{0, 2, 2});
      step({13, 14, 15});
      select({0, 0, 1});  // more beams of the first
      step({16, 1, 2});
      CHECK(decoding.length() == 5);
      CHECK(decoding.rows() == 3);
      CHECK(decoding.capacity() == 7);
    }
  }
}

TEST_CASE("translation decoding: greedy decoding with caches writes what it writes without") {
  const TranslationText text = some_translations({{5, 1}, {3, 1}});
  for (const TranslationKind& kind : translation_kinds()) {
    INFO(kind.name);
    TranslationModel model(kind.config, DType::kFloat32);
    fill_translation(model, 3);
    Ids lengths;
    const Tensor source = joined(text, lengths);
    Decoding decoding = model.begin(model.encode(source, lengths), {0, 1}, 10);
    std::vector<std::vector<std::int32_t>> cached(2, {2}), whole(2, {2});
    const auto best = [](const Tensor& logits) {
      const auto row = logits.span<float>();
      return static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin());
    };
    for (int i = 0; i < 9; ++i) {
      const Tensor next =
          model.step(tensor_of<std::int64_t>({2}, {cached[0].back(), cached[1].back()}), decoding);
      for (std::size_t row = 0; row < 2; ++row) {
        cached[row].push_back(best(next.select(static_cast<std::int64_t>(row))));
        const std::vector<SentencePair> pair = {{text.sources[row], whole[row]}};
        const Tensor logits = model.forward(pack_pairs(pair)).logits.value().select(0);
        whole[row].push_back(best(logits.select(logits.dim(0) - 1)));
      }
    }
    CHECK(cached == whole);
  }
}

TEST_CASE("translation decoding: memory of the hypotheses follows their tokens") {
  TranslationConfig c = tiny_translation();
  c.max_positions = 512;
  TranslationModel model(c, DType::kFloat32);
  model.initialise(1);
  Decoding decoding = model.begin(model.encode(tensor_of<std::int64_t>({2}, {3, 2}), Ids{2}), {0, 0, 0}, 512);
  CHECK(decoding.bytes() == 0);
  model.step(tensor_of<std::int64_t>({3}, {1, 2, 3}), decoding);
  const std::int64_t rows = 64;  // of the first tokens: 2 layers, keys and values of 2 heads of 6
  CHECK(decoding.bytes() == 2 * 2 * 3 * 2 * rows * 6 * 4);
}

TEST_CASE("translation decoding: rows that there are not, or in another order, are refused") {
  TranslationModel model(tiny_translation(), DType::kFloat32);
  model.initialise(1);
  const TranslationModel::Memory memory = model.encode(tensor_of<std::int64_t>({3}, {3, 2, 2}), Ids{2, 1});
  CHECK(memory.sentences() == 2);
  CHECK_THROWS_WITH(model.begin(memory, {1, 0}, 4),
                    "translation: sentence of row 1: expected 1 to 1, in ascending order, found 0");
  CHECK_THROWS_WITH(model.begin(memory, {0, 2}, 4),
                    "translation: sentence of row 1: expected 0 to 1, in ascending order, found 2");
  CHECK_THROWS_WITH(model.begin(memory, {}, 4), "translation: rows: expected one or more, found none");
  CHECK_THROWS_WITH(model.begin(memory, {0}, 13),
                    "translation: capacity of the decoding: expected 1 to max_positions (12), found 13");
  CHECK_THROWS_AS(model.encode(tensor_of<std::int64_t>({3}, {3, 2, 2}), Ids{2, 2}), ShapeError);
  CHECK_THROWS_AS(model.encode(full({13}, 2, DType::kInt64), Ids{13}), ValueError);
  Decoding decoding = model.begin(memory, {0, 1}, 1);
  CHECK_THROWS_WITH(decoding.select(Ids{2}), "translation: selected row: expected 0 to 1, found 2");
  CHECK_THROWS_AS(decoding.select(Ids{1, 0}), ValueError);
  CHECK_THROWS_AS(model.step(tensor_of<std::int64_t>({3}, {1, 2, 3}), decoding), ShapeError);
  CHECK_NOTHROW(model.step(tensor_of<std::int64_t>({2}, {1, 2}), decoding));
  CHECK_THROWS_AS(model.step(tensor_of<std::int64_t>({2}, {1, 2}), decoding), ShapeError);  // beyond capacity
}
