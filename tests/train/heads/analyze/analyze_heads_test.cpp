#include "train/heads/analyze/analyze_heads.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "core/error.h"
#include "core/parallel.h"
#include "tests/models/llm/move_heads.h"
#include "tests/support/message_of.h"
#include "train/families/language/analyze/text_analysis.h"
#include "train/trainer/config/run_config.h"

using namespace moh;
using nlohmann::json;

namespace {

constexpr std::int64_t kHeads = 6, kShared = 2, kTopK = 2;

LlamaConfig config_of(RouterKey router) {
  LlamaConfig config{.vocab_size = 256,
                     .layers = 2,
                     .hidden = 24,
                     .intermediate = 32,
                     .heads = kHeads,
                     .kv_heads = 3,
                     .head_dim = 4,
                     .max_positions = 32};
  if (router != routers::kNone) config.moh = {.router = router, .num_shared = kShared, .top_k = kTopK};
  return config;
}

struct Sample {
  Llama model;
  std::unique_ptr<const Tokenizer> tokenizer = std::make_unique<ByteTokenizer>();
  std::vector<TextSource> sources;
  AnalyzeOptions options{.sequence_length = 16, .batch_size = 3, .max_tokens = 0, .similarity_tokens = 64};

  explicit Sample(const LlamaConfig& config, DType dtype = DType::kFloat32) : model(config, dtype) {
    model.initialise(5);
    add_source("words",
               "the head token mixture of and router keeps few a gate loss of heads that each token needs");
    add_source("digits",
               "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899");
  }
  explicit Sample(RouterKey router) : Sample(config_of(router)) {}

  void add_source(const std::string& name, const std::string& text) {
    std::vector<TokenId> ids;
    tokenizer->encode(text, ids);
    sources.push_back({name, tokens_in_memory(ids, 256)});
  }

  std::optional<HeadReport> run(const AnalyzeProgressCallback& progress) const {
    return analyze_heads(model, analysis_of_texts(model, *tokenizer, sources, options), progress);
  }
  HeadReport run() const {
    return *run([](const AnalyzeProgress&) { return true; });
  }
};

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void check_use(const LayerReport& layer, const HeadUse& use) {
  CHECK(sum(layer.routed_load(use)) == Approx(kTopK));
  for (std::int64_t h = 0; h < kShared; ++h) CHECK(use.load[static_cast<std::size_t>(h)] == 1);
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || a == Approx(b).epsilon(1e-5).margin(1e-6);
}

bool same(const FeatureRank& a, const FeatureRank& b) {
  return a.largest == b.largest && a.rank == b.rank && same(a.effective, b.effective);
}

/// Head i of `a` is head order[i] of `b`.
void check_same_use(const HeadUse& a, const HeadUse& b, const Heads& order) {
  CHECK(a.tokens == b.tokens);
  for (std::size_t h = 0; h < order.size(); ++h) {
    const auto moved = static_cast<std::size_t>(order[h]);
    CHECK(a.load[h] == b.load[moved]);
    CHECK(same(a.gate_mean[h], b.gate_mean[moved]));
    CHECK(same(a.gate_std[h], b.gate_std[moved]));
  }
}

void check_same_layer(const LayerReport& a, const LayerReport& b, const Heads& order) {
  check_same_use(*a.use, *b.use, order);
  REQUIRE(a.by_source.size() == b.by_source.size());
  for (std::size_t s = 0; s < a.by_source.size(); ++s) check_same_use(a.by_source[s], b.by_source[s], order);
  CHECK(balance_of(a.routed_load(*a.use)).entropy == Approx(balance_of(b.routed_load(*b.use)).entropy));
  const std::vector<HeadGroup> of_a = a.heads.groups(), of_b = b.heads.groups();
  for (const auto pairs :
       {&HeadSimilarity::attention, &HeadSimilarity::outputs, &HeadSimilarity::contributions}) {
    const HeadPairs &pairs_a = (*a.similarity.*pairs)(), &pairs_b = (*b.similarity.*pairs)();
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t j = 0; j < order.size(); ++j) {
        CHECK(same(pairs_a.mean(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)),
                   pairs_b.mean(order[i], order[j])));
      }
    }
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      for (std::size_t j = 0; j < of_a.size(); ++j)
        CHECK(same(pairs_a.mean(of_a[i], of_a[j]), pairs_b.mean(of_b[i], of_b[j])));
    }
  }
  REQUIRE(b.rank_of_groups.size() == 3);
  for (std::size_t g = 0; g < 3; ++g) CHECK(same(a.rank_of_groups[g].second, b.rank_of_groups[g].second));
  for (std::size_t h = 0; h < order.size(); ++h)
    CHECK(same(a.rank_of_heads[h], b.rank_of_heads[static_cast<std::size_t>(order[h])]));
}

/// The tables without what stands by the numbers of heads.
std::string tables_of_groups(const HeadReport& report) {
  std::ostringstream tables;
  write_tables(tables, report);
  return tables.str().substr(0, tables.str().find("load in layer"));
}

/// Every number in the JSON is finite by the format; this looks for what stands for others.
std::int64_t count_nulls(const json& value) {
  if (value.is_null()) return 1;
  std::int64_t nulls = 0;
  if (value.is_structured()) {
    for (const json& part : value) nulls += count_nulls(part);
  }
  return nulls;
}

Tensor parameter(const Llama& model, const std::string& name) {
  for (const NamedParameter& p : model.parameters()) {
    if (p.name == name) return p.variable.value();
  }
  FAIL("no parameter " << name);
  return {};
}

}  // namespace

TEST_CASE("analyze: documents that share a sequence are analysed as if each were alone") {
  Sample sample(routers::kLearned);
  sample.sources.clear();
  sample.add_source("two", "the head token mixture of heads");
  std::vector<TokenId> ids(31);
  sample.sources[0].tokens->copy(0, ids);
  ids.insert(ids.begin() + 15, ByteTokenizer::kEndOfDocument);
  sample.sources[0].tokens = tokens_in_memory(ids, 256);
  const auto report = [&](std::int64_t length, const AnalyzedDocuments& documents) {
    AnalyzeOptions options = sample.options;
    options.sequence_length = length;
    return *analyze_heads(
        sample.model, analysis_of_texts(sample.model, *sample.tokenizer, sample.sources, options, documents),
        [](const AnalyzeProgress&) { return true; });
  };
  const HeadReport alone = report(16, {}), unmasked = report(32, {});
  const HeadReport masked = report(32, {.mask = true, .reset_positions = true});
  const HeadUse& use = *alone.layers[1].use;
  for (std::size_t h = 0; h < kHeads; ++h) {
    CHECK(masked.layers[1].use->load[h] == use.load[h]);
    CHECK(same(masked.layers[1].use->gate_mean[h], use.gate_mean[h]));
  }
  const auto overlap = [](const HeadReport& of) { return of.layers[1].similarity->attention().mean(0, 1); };
  CHECK(same(overlap(masked), overlap(alone)));
  CHECK_FALSE(same(overlap(unmasked), overlap(alone)));
  bool all_same = true;
  for (std::size_t h = 0; h < kHeads; ++h)
    all_same = all_same && same(unmasked.layers[1].use->gate_mean[h], use.gate_mean[h]);
  CHECK_FALSE(all_same);
}

TEST_CASE("analyze: what must hold for every MoH model") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    const HeadReport report = Sample(router).run();
    CHECK(report.tokens == report.sources[0].tokens + report.sources[1].tokens);
    CHECK(report.sources[0].tokens == report.sources[0].available);
    REQUIRE(report.layers.size() == 2);
    for (const LayerReport& layer : report.layers) {
      check_use(layer, *layer.use);
      REQUIRE(layer.by_source.size() == 2);
      for (const HeadUse& use : layer.by_source) check_use(layer, use);
      for (std::size_t h = 0; h < kHeads; ++h) {
        const double weighted = layer.by_source[0].load[h] * static_cast<double>(report.sources[0].tokens) +
                                layer.by_source[1].load[h] * static_cast<double>(report.sources[1].tokens);
        CHECK(layer.use->load[h] == Approx(weighted / static_cast<double>(report.tokens)));
        if (router == routers::kQueryNorm && layer.use->load[h] > 0) {
          CHECK(layer.use->gate_mean[h] == 1);  // binary gates
          CHECK(layer.use->gate_std[h] == 0);
        }
      }
      REQUIRE(layer.rank_of_groups.size() == 3);
      const FeatureRank all = layer.rank_of_groups[0].second, shared = layer.rank_of_groups[1].second;
      CHECK(all.largest == 24);
      CHECK(shared.largest == kShared * 4);
      for (const auto& [group, rank] : layer.rank_of_groups) {
        CHECK(rank.rank <= rank.largest);
        CHECK(rank.effective >= 1);
        CHECK(rank.effective <= static_cast<double>(rank.largest) + 1e-6);
      }
      for (std::int64_t i = 0; i < kHeads; ++i) {
        CHECK(layer.similarity->attention().mean(i, i) == Approx(1).epsilon(1e-5));
        CHECK(layer.similarity->contributions().mean(i, i) == Approx(1).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("analyze: gates average about 1 under the released code's scaling") {
  const HeadReport report = Sample(routers::kLearned).run();
  for (const LayerReport& layer : report.layers) {
    double gates = 0;
    for (std::size_t h = 0; h < kHeads; ++h) gates += layer.use->load[h] * layer.use->gate_mean[h];
    // w1 S + w2 K with w1 + w2 = 2 and S = K: exactly 4 for every token.
    CHECK(gates == Approx(kShared + kTopK).epsilon(1e-5));
  }
}

TEST_CASE("analyze: two heads with the same weights are found to be alike") {
  Sample sample(routers::kNone);
  // Heads 0 and 1 share their keys and values; the second query head and output block become copies.
  const Tensor q = parameter(sample.model, "model.layers.1.self_attn.q_proj.weight");
  q.scale(100);  // as it starts, attention is nearly even, and heads that share values differ little
  const Tensor o = parameter(sample.model, "model.layers.1.self_attn.o_proj.weight");
  std::copy_n(q.data<float>(), 4 * 24, q.data<float>() + 4 * 24);
  for (std::int64_t row = 0; row < 24; ++row)
    std::copy_n(o.data<float>() + row * 24, 4, o.data<float>() + row * 24 + 4);
  sample.options.rank_tolerance = 1e-4;
  const HeadReport report = sample.run();
  const HeadSimilarity& similarity = *report.layers[1].similarity;
  CHECK(similarity.attention().mean(0, 1) == Approx(1).epsilon(1e-6));
  CHECK(similarity.outputs().mean(0, 1) == Approx(1).epsilon(1e-6));
  CHECK(similarity.contributions().mean(0, 1) == Approx(1).epsilon(1e-6));
  CHECK(std::abs(similarity.contributions().mean(0, 2)) < 0.99);
  // One of them is too much: the layer's output has four directions fewer.
  CHECK(report.layers[1].rank_of_groups[0].second.rank == 20);
}

TEST_CASE("analyze: shared heads that are listed are reported by their numbers") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    const std::vector<Heads> orders = {{1, 4, 0, 2, 3, 5}, {0, 5, 1, 2, 3, 4}};  // the router's
    LlamaConfig config = config_of(router);
    config.kv_heads = kHeads;
    Sample first(config, DType::kFloat64);
    config.moh.shared_heads.each = {{4, 1}, {0, 5}};
    Sample listed(config, DType::kFloat64);
    move_heads(listed.model, orders);
    for (Sample* sample : {&first, &listed}) {
      sample->options.top_tokens = 5;
      sample->options.text = "3 heads";
    }
    const HeadReport a = first.run(), b = listed.run();
    for (std::size_t layer = 0; layer < orders.size(); ++layer) {
      const Heads& order = orders[layer];
      CHECK(b.layers[layer].heads.shared == Heads(order.begin(), order.begin() + kShared));
      CHECK(b.layers[layer].heads.routed == Heads(order.begin() + kShared, order.end()));
      check_same_layer(a.layers[layer], b.layers[layer], order);
      REQUIRE(b.token_table.size() == 5);
      for (std::size_t t = 0; t < 5; ++t) {
        for (std::size_t h = 0; h < order.size(); ++h) {
          CHECK(a.token_table[t].load[layer][h] ==
                b.token_table[t].load[layer][static_cast<std::size_t>(order[h])]);
        }
      }
      REQUIRE(b.text.size() == 7);
      for (std::size_t t = 0; t < 7; ++t) {
        Heads moved;
        for (const std::int64_t h : a.text[t].heads[layer])
          moved.push_back(order[static_cast<std::size_t>(h)]);
        CHECK(b.text[t].heads[layer] == moved);
      }
    }
    CHECK(tables_of_groups(a) == tables_of_groups(b));
    const json found = json::parse(to_json(b));
    CHECK(found["layers"][0]["shared_heads"] == json{1, 4});
    CHECK(found["layers"][1]["shared_heads"] == json{0, 5});
    CHECK(found["layers"][1]["routed"] == kHeads - kShared);
    CHECK(json::parse(to_json(a))["layers"][1]["shared_heads"] == json{0, 1});
    // The last layer's table by source has the routed heads, not the last ones.
    std::ostringstream tables;
    write_tables(tables, b);
    for (const char* row : {"\n     1  ", "\n     4  "}) CHECK(tables.str().find(row) != std::string::npos);
    for (const char* row : {"\n     0  ", "\n     5  "}) CHECK(tables.str().find(row) == std::string::npos);
  }
}

TEST_CASE("analyze: a dense model has similarity and rank, and no load") {
  const HeadReport report = Sample(routers::kNone).run();
  for (const LayerReport& layer : report.layers) {
    CHECK_FALSE(layer.use.has_value());
    CHECK(layer.by_source.empty());
    REQUIRE(layer.rank_of_groups.size() == 1);
    CHECK(layer.rank_of_heads.size() == kHeads);
  }
  const json found = json::parse(to_json(report));
  CHECK_FALSE(found["layers"][0].contains("load"));
  CHECK(found["layers"][0]["shared_heads"] == json::array());
  CHECK(found["layers"][0]["similarity"]["attention"]["mean"].size() == 1);
  CHECK(found["layers"][0]["rank"].contains("all"));
  CHECK(count_nulls(found) == 0);
  std::ostringstream table;
  write_tables(table, report);
  CHECK(table.str().find("6, dense") != std::string::npos);
}

TEST_CASE("analyze: the report does not depend on threads, and only by rounding on the size of batches") {
  Sample sample(routers::kLearned);
  const int before = num_threads();
  set_num_threads(1);
  const std::string one = to_json(sample.run());
  set_num_threads(3);
  CHECK(to_json(sample.run()) == one);
  set_num_threads(before);
  sample.options.batch_size = 1;
  const json batches = json::parse(one), single = json::parse(to_json(sample.run()));
  CHECK(single["layers"][1]["load"] == batches["layers"][1]["load"]);
  CHECK(single["layers"][1]["similarity"]["attention"]["mean"]["all"].get<double>() ==
        Approx(batches["layers"][1]["similarity"]["attention"]["mean"]["all"].get<double>()).epsilon(1e-4));
}

TEST_CASE("analyze: the table of tokens") {
  Sample sample(routers::kLearned);
  sample.options.top_tokens = 2;
  const HeadReport report = sample.run();
  REQUIRE(report.token_table.size() == 2);
  CHECK(report.token_table[0].text == " ");
  CHECK(report.token_table[0].count == 17);
  CHECK(report.token_table[1].text == "e");
  for (const TokenReport& token : report.token_table) {
    REQUIRE(token.load.size() == 2);
    for (const std::vector<double>& load : token.load) CHECK(sum(load) == Approx(kShared + kTopK));
  }

  sample.options.tokens = {"7", "#", "7"};
  sample.options.text = "a\n7";
  const HeadReport chosen = sample.run();
  REQUIRE(chosen.token_table.size() == 2);
  CHECK(chosen.token_table[0].text == "7");
  CHECK(chosen.token_table[1].count == 0);
  REQUIRE(chosen.text.size() == 3);
  CHECK(chosen.text[1].text == "\\x0a");
  for (const TextTokenReport& token : chosen.text) {
    for (const std::vector<std::int64_t>& heads : token.heads) {
      CHECK(heads.size() == kTopK);
      CHECK(std::ranges::all_of(heads, [](std::int64_t h) { return h >= kShared && h < kHeads; }));
    }
  }
  CHECK(json::parse(to_json(chosen))["token_table"][1]["load"][0][0].is_null());  // "#" does not occur
  std::ostringstream table;
  write_tables(table, chosen);
  CHECK(table.str().find("'#'                  0  (does not occur)") != std::string::npos);
}

TEST_CASE("analyze: layers may differ, and a layer may have shared heads only") {
  LlamaConfig config = config_of(routers::kLearned);
  config.moh.num_shared.each = {kHeads, 0};
  config.moh.top_k.each = {0, 1};
  const HeadReport report = Sample(config).run();
  CHECK(report.layers[0].use->load == std::vector<double>(kHeads, 1.0));
  CHECK(report.layers[0].routed_load(*report.layers[0].use).empty());
  CHECK(sum(report.layers[1].use->load) == Approx(1));
  // No token has two routed heads here: pairs of different heads have no value.
  CHECK(std::isnan(report.layers[1].similarity->outputs().mean(0, 1)));
  const json found = json::parse(to_json(report));
  CHECK_FALSE(found["layers"][0].contains("entropy"));
  CHECK(found["layers"][1]["similarity"]["outputs"]["mean"]["routed_routed"].is_null());
  std::ostringstream table;
  write_tables(table, report);
  CHECK(table.str().find("6, all of them shared") != std::string::npos);
}

TEST_CASE("analyze: progress is told, and stopping leaves no report") {
  const Sample sample(routers::kLearned);
  std::int64_t calls = 0, last = 0;
  const auto watch = [&](const AnalyzeProgress& progress) {
    ++calls;
    CHECK(progress.done <= progress.total);
    if (!progress.ranks) last = progress.done;
    return true;
  };
  const auto report = sample.run(watch);
  CHECK(last == report->tokens);
  for (std::int64_t stop_at = 1; stop_at <= calls; ++stop_at) {
    std::int64_t now = 0;
    CHECK_FALSE(sample.run([&](const AnalyzeProgress&) { return ++now < stop_at; }).has_value());
    CHECK(now == stop_at);
  }
}

TEST_CASE("analyze: options and models that will not do") {
  Sample sample(routers::kLearned);
  sample.options.rank_tolerance = 1;
  CHECK(message_of<ValueError>([&] { sample.run(); }) ==
        "analyze: rank tolerance: expected more than 0 and less than 1, found 1.000000");
  sample.options.rank_tolerance = 0.01;
  sample.options.tokens = {"ab"};
  CHECK(message_of<ValueError>([&] { sample.run(); }) ==
        "analyze: token 'ab': expected the text of one token of byte, found 2 tokens");
  sample.options.tokens = {};
  sample.options.text = std::string(33, 'x');
  CHECK(message_of<ValueError>([&] { sample.run(); }) ==
        "analyze: text: expected at most 32 tokens, found 33");
  sample.options.text = "";
  sample.options.sequence_length = 33;
  CHECK(message_of<ValueError>([&] { sample.run(); }) ==
        "analyze: sequence length: expected at most 32 positions, found 33");
  sample.options.sequence_length = 16;
  sample.options.top_tokens = -1;
  CHECK(message_of<ValueError>([&] { sample.run(); }) ==
        "analyze: tokens in the table: expected 0 or more, found -1");
  sample.options.top_tokens = 1;
  parameter(sample.model, "model.layers.1.self_attn.v_proj.weight")
      .fill(std::numeric_limits<double>::quiet_NaN());
  CHECK(message_of<NumericError>([&] { sample.run(); }) ==
        "analyze: layer 1: expected finite head outputs, found NaN or infinity; use an earlier checkpoint");
}
