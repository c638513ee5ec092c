// The analysis of a model of no family that the program knows, on inputs without tokens' ids.

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "tests/train/heads/attention_model.h"
#include "train/heads/analyze/analyze_heads.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kPasses = 3, kBatch = 4, kTokens = 5;

/// Each pass has inputs of two sources, as images of several classes stand in one batch.
AnalysisInputs inputs_for(const AttentionModel& model) {
  AnalysisInputs inputs;
  inputs.model = {.layers = 2,
                  .hidden = AttentionModel::kWidth,
                  .heads = AttentionModel::kHeads,
                  .kv_heads = AttentionModel::kHeads,
                  .head_dim = AttentionModel::kHeadDim};
  inputs.sources = {{"cats", kPasses * kTokens, 100}, {"dogs", kPasses * kTokens * 3, 300}};
  inputs.similarity_tokens = kPasses * kTokens;
  inputs.num_passes = kPasses;
  inputs.pass = [](std::int64_t index) {
    AnalysisPass pass{.inputs = normal_inputs(kBatch, kTokens, static_cast<std::uint64_t>(index))};
    pass.sources.assign(kBatch * kTokens, 1);
    std::fill_n(pass.sources.begin(), kTokens, 0);  // the first of the batch
    pass.for_similarity = {true, false, false, false};
    return pass;
  };
  inputs.forward = [&model](const Tensor& x, const ForwardContext& context) { model.forward(x, context); };
  return inputs;
}

double total_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

TEST_CASE("analyze: any model with attention, on inputs without ids") {
  const AttentionModel model({dense_routing(), learned_routing(2, 1)});
  std::int64_t last = 0;
  const auto watch = [&](const AnalyzeProgress& progress) {
    if (!progress.ranks) last = progress.done;
    return true;
  };
  const HeadReport report = *analyze_heads(model, inputs_for(model), watch);
  CHECK(report.tokens == kPasses * kBatch * kTokens);
  CHECK(last == report.tokens);
  REQUIRE(report.layers.size() == 2);
  CHECK_FALSE(report.layers[0].use.has_value());
  const LayerReport& routed = report.layers[1];
  REQUIRE(routed.by_source.size() == 2);
  CHECK(routed.by_source[0].tokens == kPasses * kTokens);
  CHECK(routed.by_source[1].tokens == kPasses * kTokens * 3);
  for (const HeadUse& use : routed.by_source) CHECK(total_of(use.load) == Approx(2 + 1));
  CHECK(report.token_table.empty());
  const auto parsed = nlohmann::json::parse(to_json(report));
  CHECK(parsed["token_table"].empty());
  CHECK(parsed["layers"][1]["by_source"][1]["source"] == "dogs");
  std::ostringstream tables;
  write_tables(tables, report);
  CHECK(tables.str().find("cats             15 of 100 tokens") != std::string::npos);
}

TEST_CASE("analyze: attention without a mask is compared without a mask") {
  // The first token sees all others here, so that its heads have something to be compared by.
  struct FirstToken : AttentionObserver {
    void observe(const AttentionTrace& trace) override {
      similarity.add({.q = trace.q.select(0),
                      .k = trace.k.select(0),
                      .heads = trace.heads.select(0),
                      .output = trace.output,
                      .causal = trace.causal,
                      .selected = std::vector<std::uint8_t>(kTokens * AttentionModel::kHeads, 1)});
    }
    HeadSimilarity similarity{AttentionModel::kHeads};
  };
  const AttentionModel model({dense_routing()});
  AnalysisInputs inputs = inputs_for(model);
  inputs.model.layers = 1;
  inputs.num_passes = 1;
  FirstToken expected;
  model.forward(inputs.pass(0).inputs, {.observer = &expected});
  const HeadReport report = *analyze_heads(model, inputs, [](const AnalyzeProgress&) { return true; });
  CHECK_FALSE(expected.similarity.attention().mean(0, 1) == Approx(1));
  CHECK(report.layers[0].similarity->attention().mean(0, 1) == expected.similarity.attention().mean(0, 1));
}
