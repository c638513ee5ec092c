// The analysis of a translation model's heads: layers of three kinds, tokens of two sides, packed sentences.

#include "train/families/translation/analyze/pair_analysis.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "tests/models/translation/tiny_translation.h"
#include "train/families/translation/analyze/analyzed_pairs.h"
#include "train/families/translation/decode/translate_sentences.h"
#include "train/heads/analyze/analyze_heads.h"

using namespace moh;
using namespace moh::test;

namespace {

using Ids = std::vector<TokenId>;
using Catch::Contains;

constexpr SentenceMarks kPairMarks{.end = 2, .decoder_start = 1};
constexpr std::int64_t kHeadsOfLayer = 4;

struct PairIds {
  Ids source, target;
};

std::shared_ptr<const TokenPairs> pairs_of(const std::vector<PairIds>& sentences) {
  PairMemory memory(256);
  for (const auto& [source, target] : sentences) memory.append(source, target);
  return std::make_shared<const TokenPairs>(memory.finish());
}

HeadReport report_of(const TranslationModel& model, const std::vector<NamedPairs>& sources,
                     const AnalyzeOptions& options = {}) {
  const auto bytes = std::make_shared<const ByteTokenizer>();
  const AnalysisInputs inputs =
      analysis_of_pairs(model, {bytes, bytes}, kPairMarks, sources, /*batch_tokens=*/24, options);
  return *analyze_heads(model, inputs, [](const AnalyzeProgress&) { return true; });
}

Tensor parameter(const TranslationModel& model, std::string_view name) {
  for (const NamedParameter& p : model.parameters())
    if (p.name == name) return p.variable.value();
  FAIL("no parameter " << name);
  return {};
}

/// One shared head and one of three others, which the parity of a token's id decides in the first layers of
/// both stacks: the first element of its embedding is large, and positive for even ids. Of the encoder's
/// input even tokens select head 2 and odd ones head 3, of the decoder's head 1 and head 3. Attention to the
/// source selects head 1, the first of equal ones.
class ModelOfParity {
 public:
  ModelOfParity() : model_(config(), DType::kFloat32) {
    model_.initialise(1);
    const Tensor table = parameter(model_, "encoder.embed_tokens.weight");
    for (std::int64_t id = 0; id < table.dim(0); ++id)
      table.data<float>()[id * table.dim(1)] = id % 2 == 0 ? 50.0F : -50.0F;
    select("encoder.layers.0.self_attn", 2, 3);
    select("decoder.layers.0.self_attn", 1, 3);
    parameter(model_, "decoder.layers.0.encoder_attn.wg.weight").fill(0);
  }

  const TranslationModel& operator*() const { return model_; }

 private:
  static TranslationConfig config() {
    TranslationConfig c = tiny_translation();
    c.vocab_size = 256;
    c.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 1};
    return c;
  }
  void select(const std::string& layer, std::int64_t even, std::int64_t odd) {
    const Tensor map = parameter(model_, layer + ".wg.weight");  // of the routed heads, from head 1 on
    map.fill(0);
    map.data<float>()[(even - 1) * map.dim(1)] = 1;
    map.data<float>()[(odd - 1) * map.dim(1)] = -1;
  }

  TranslationModel model_;
};

/// The share of even ids among the tokens of some pairs, with those around the sentences.
double even_share(const std::vector<PairIds>& pairs, Ids PairIds::*side, TokenId mark) {
  double even = 0, all = 0;
  for (const PairIds& pair : pairs) {
    Ids ids = pair.*side;
    ids.push_back(mark);
    even += static_cast<double>(std::ranges::count_if(ids, [](TokenId id) { return id % 2 == 0; }));
    all += static_cast<double>(ids.size());
  }
  return even / all;
}

void check_loads(const HeadUse& use, const std::vector<double>& expected) {
  for (std::size_t h = 0; h < expected.size(); ++h) CHECK(use.load[h] == Approx(expected[h]).margin(1e-12));
}

const std::vector<PairIds> first_pairs = {{{4, 6, 7, 8}, {5}}, {{4}, {9, 11, 12}}, {{7, 7, 6}, {5, 13}}};
const std::vector<PairIds> second_pairs = {{{9, 11}, {14, 14, 16, 5}}};

}  // namespace

TEST_CASE("translation analysis: loads of each kind of attention, by source and by token") {
  const ModelOfParity model;
  const HeadReport report =
      report_of(*model, {{"first", pairs_of(first_pairs)}, {"second", pairs_of(second_pairs)}},
                {.tokens = {"\x04", "\x05", "\x03"}});
  CHECK(report.unit == "sentence pairs");
  CHECK(report.tokens == 4);
  REQUIRE(report.layers.size() == 6);
  std::vector<PairIds> all = first_pairs;
  all.insert(all.end(), second_pairs.begin(), second_pairs.end());
  const auto check = [](const std::vector<PairIds>& pairs, const auto& use_of) {
    const double source = even_share(pairs, &PairIds::source, kPairMarks.end),
                 target = even_share(pairs, &PairIds::target, kPairMarks.decoder_start);
    check_loads(use_of(0), {1, 0, source, 1 - source});
    check_loads(use_of(2), {1, target, 0, 1 - target});
    check_loads(use_of(3), {1, 1, 0, 0});
  };
  check(all, [&](std::size_t layer) { return *report.layers[layer].use; });
  check(first_pairs, [&](std::size_t layer) { return report.layers[layer].by_source[0]; });
  check(second_pairs, [&](std::size_t layer) { return report.layers[layer].by_source[1]; });
  CHECK(report.layers[0].by_source[0].tokens == 4 + 1 + 3 + 3);
  CHECK(report.layers[3].by_source[0].tokens == 1 + 3 + 2 + 3);

  REQUIRE(report.token_table.size() == 3);
  const TokenReport &of_source = report.token_table[0], &of_target = report.token_table[1];
  CHECK(of_source.count == 2);
  CHECK(of_source.load[0] == std::vector<double>{1, 0, 1, 0});
  CHECK(std::isnan(of_source.load[2][1]));  // no target has it
  CHECK(of_target.count == 3);
  CHECK(of_target.load[2] == std::vector<double>{1, 0, 0, 1});
  CHECK(of_target.load[3] == std::vector<double>{1, 1, 0, 0});
  CHECK(report.token_table[2].count == 0);
}

TEST_CASE("translation analysis: layers have names, in the tables and in the file") {
  const ModelOfParity model;
  const HeadReport report =
      report_of(*model, {{"first", pairs_of(first_pairs)}, {"second", pairs_of(second_pairs)}},
                {.top_tokens = 4, .text = "  ab "});
  std::ostringstream tables;
  write_tables(tables, report);
  for (const char* text :
       {"first            3 of 3 sentence pairs\n", "\n0 encoder self 0   1 shared, 1 of 3 ",
        "\n2 decoder self 0   ", "\n3 decoder cross 0  ", "\nload in layer 1 encoder self 1, by source\n",
        "\nload in layer 4 decoder self 1, by source\n", "\nload in layer 5 decoder cross 1, by source\n",
        "\ntext          routed heads in layer 5 decoder cross 1\n"})
    CHECK_THAT(tables.str(), Contains(text));
  const auto parsed = nlohmann::json::parse(to_json(report));
  CHECK(parsed["layers"][3]["name"] == "decoder cross 0");
  CHECK(parsed["layers"][0]["name"] == "encoder self 0");
}

TEST_CASE("translation analysis: a text has the tokens of its sentence and of its greedy translation") {
  const ModelOfParity model;
  const HeadReport report = report_of(*model, {{"first", pairs_of(first_pairs)}}, {.text = "  ab "});
  const auto greedy =
      translate_sentences(*model, kPairMarks, 256, std::vector<Ids>{{'a', 'b'}}, {.beam = {.beams = 1}});
  Ids expected = {'a', 'b', kPairMarks.end, kPairMarks.decoder_start}, found;
  const Ids& translation = greedy.front().front().tokens;
  expected.insert(expected.end(), translation.begin(), translation.end());
  for (const TextTokenReport& token : report.text) {
    found.push_back(token.id);
    const bool is_source = found.size() <= 3, is_even = token.id % 2 == 0;
    CHECK(token.side == (is_source ? 0 : 1));
    using Selected = std::vector<std::int64_t>;
    CHECK(token.heads[0] == (is_source ? Selected{is_even ? 2 : 3} : Selected()));
    CHECK(token.heads[2] == (is_source ? Selected() : Selected{is_even ? 1 : 3}));
    CHECK(token.heads[3] == (is_source ? Selected() : Selected{1}));
  }
  CHECK(found == expected);
  CHECK(report.text[0].text == "a");
  CHECK(report_of(*model, {{"first", pairs_of(first_pairs)}}, {.text = " \t"}).text.empty());
  CHECK_THROWS_WITH(report_of(*model, {{"first", pairs_of(first_pairs)}}, {.text = "a long sentence"}),
                    Contains("source sentence: expected at most 12 tokens with its end, found 16"));
}

namespace {

/// Similarities of a layer's heads, summed over pairs of sentences that go through the model one by one.
class OneByOne : public AttentionObserver {
 public:
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;
  };
  struct Layer {
    Mean attention[kHeadsOfLayer][kHeadsOfLayer], outputs[kHeadsOfLayer][kHeadsOfLayer];
  };

  void observe(const AttentionTrace& trace) override {
    layers.resize(std::max(layers.size(), static_cast<std::size_t>(trace.layer) + 1));
    Layer& layer = layers[static_cast<std::size_t>(trace.layer)];
    const std::int64_t tokens = trace.heads.dim(1), keys = trace.k.dim(1),
                       group = kHeadsOfLayer / trace.k.dim(2);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t seen = trace.causal ? t + 1 : keys;
      for (std::int64_t i = 0; i < kHeadsOfLayer; ++i) {
        for (std::int64_t j = 0; j < i; ++j) {
          if (!selects(trace, t, i) || !selects(trace, t, j)) continue;
          add(layer.outputs[i][j], cosine(row(trace.heads, t, i), row(trace.heads, t, j)));
          if (seen == 1) continue;
          const std::vector<double> a = weights(trace, t, i, i / group, seen),
                                    b = weights(trace, t, j, j / group, seen);
          double shared = 0;
          for (std::size_t s = 0; s < a.size(); ++s) shared += std::min(a[s], b[s]);
          add(layer.attention[i][j], shared);
        }
      }
    }
  }

  std::vector<Layer> layers;

 private:
  static void add(Mean& mean, double value) {
    mean.sum += value;
    ++mean.count;
  }
  static bool selects(const AttentionTrace& trace, std::int64_t t, std::int64_t head) {
    return trace.choice == nullptr ||
           trace.choice->routing.selected.data<std::uint8_t>()[t * kHeadsOfLayer + head] != 0;
  }
  static std::span<const float> row(const Tensor& x, std::int64_t t, std::int64_t head) {
    return x.select(0).select(t).select(head).span<float>();
  }
  static double product(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
    return sum;
  }
  static double cosine(std::span<const float> a, std::span<const float> b) {
    return product(a, b) / std::sqrt(product(a, a) * product(b, b));
  }
  static std::vector<double> weights(const AttentionTrace& trace, std::int64_t t, std::int64_t head,
                                     std::int64_t kv_head, std::int64_t seen) {
    std::vector<double> p;
    double sum = 0;
    for (std::int64_t s = 0; s < seen; ++s) {
      const std::span<const float> q = row(trace.q, t, head);
      p.push_back(std::exp(product(q, row(trace.k, s, kv_head)) / std::sqrt(static_cast<double>(q.size()))));
      sum += p.back();
    }
    for (double& value : p) value /= sum;
    return p;
  }
};

void check_means(const HeadPairs& found, const OneByOne::Mean (&expected)[kHeadsOfLayer][kHeadsOfLayer]) {
  for (std::int64_t i = 0; i < kHeadsOfLayer; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      const auto [sum, count] = expected[i][j];
      if (count == 0)
        CHECK(std::isnan(found.mean(i, j)));
      else
        CHECK(found.mean(i, j) == Approx(sum / static_cast<double>(count)).epsilon(1e-4).margin(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("translation analysis: heads are compared sentence by sentence, whatever keys they attend to") {
  const TranslationText text = some_translations({{3, 5}, {1, 4}, {6, 2}, {9, 1}, {2, 8}});
  std::vector<PairIds> sentences;
  for (std::size_t i = 0; i < text.sources.size(); ++i)
    sentences.push_back({text.sources[i], text.targets[i]});
  for (const std::size_t kind : {0U, 1U, 8U}) {  // dense, learned, and other counts in each layer
    INFO(translation_kinds().at(kind).name);
    TranslationConfig c = translation_kinds().at(kind).config;
    c.vocab_size = 256;
    TranslationModel model(c, DType::kFloat32);
    fill_translation(model, 4);
    const auto pairs = pairs_of(sentences);
    OneByOne expected;
    for (std::int64_t i = 0; i < pairs->size(); ++i)
      model.forward(make_pair_batch(*pairs, std::span(&i, 1), kPairMarks).pairs, {.observer = &expected});
    const HeadReport report = report_of(model, {{"all", pairs}});
    CHECK(report.similarity_tokens == 5 + 4 + 2 + 1 + 8 + 5);
    REQUIRE(report.layers.size() == 6);
    for (std::size_t layer = 0; layer < 6; ++layer) {
      CAPTURE(layer);
      check_means(report.layers[layer].similarity->attention(), expected.layers[layer].attention);
      check_means(report.layers[layer].similarity->outputs(), expected.layers[layer].outputs);
    }
  }
}

TEST_CASE(
    "translation analysis: pairs are spread evenly, in token batches with the places of their sentences") {
  std::vector<PairIds> sentences;
  for (TokenId i = 0; i < 40; ++i)
    sentences.push_back({Ids(static_cast<std::size_t>(1 + i % 5), 100 + i), Ids(3, 100 + i)});
  const auto pairs = pairs_of(sentences);
  const AnalyzedPairs some(pairs, kPairMarks, 12, {.max_tokens = 40, .similarity_tokens = 20}, 7);
  CHECK(some.num_available() == 40);
  CHECK(some.num_pairs() == 10);  // of 4 target tokens each
  CHECK(some.num_similarity_tokens() == 20);
  Ids firsts;
  std::vector<bool> compared;
  for (std::int64_t i = 0; i < some.size(); ++i) {
    const AnalysisPass pass = some.at(i);
    const std::vector<SentencePair> packed = pairs_in(pass.inputs);
    REQUIRE(pass.sources == std::vector<std::int32_t>(packed.size(), 7));
    REQUIRE(pass.tokens.size() == 2);
    for (std::size_t pair = 0; pair < packed.size(); ++pair) {
      firsts.push_back(packed[pair].source[0]);
      CHECK(packed[pair].source.back() == kPairMarks.end);
      CHECK(packed[pair].target.front() == kPairMarks.decoder_start);
      const std::span<const std::int32_t> sides[] = {packed[pair].source, packed[pair].target};
      for (std::size_t side = 0; side < 2; ++side) {
        const auto& [ids, offsets] = pass.tokens[side];
        REQUIRE(offsets.size() == packed.size() + 1);
        CHECK(offsets.back() == ids.dim(1));
        CHECK(offsets[pair + 1] - offsets[pair] == std::ssize(sides[side]));
        CHECK(std::ranges::equal(
            sides[side],
            ids.span<std::int64_t>().subspan(static_cast<std::size_t>(offsets[pair]), sides[side].size())));
      }
    }
    compared.insert(compared.end(), pass.for_similarity.begin(), pass.for_similarity.end());
  }
  CHECK(firsts == Ids{100, 104, 108, 112, 116, 120, 124, 128, 132, 136});
  CHECK(compared == std::vector<bool>{false, true, false, true, false, true, false, true, false, true});
  const AnalyzedPairs all(pairs, kPairMarks, 12, {.max_tokens = 0, .similarity_tokens = 1000});
  CHECK(all.num_pairs() == 40);
  CHECK(all.num_similarity_tokens() == 160);
  CHECK_THROWS_AS(AnalyzedPairs(pairs, kPairMarks, 12, {.max_tokens = -1}), ValueError);
  CHECK_THROWS_AS(AnalyzedPairs(pairs, kPairMarks, 12, {.similarity_tokens = 0}), ValueError);
}
