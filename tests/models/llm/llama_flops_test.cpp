#include "models/llm/llama_flops.h"

#include <catch2/catch.hpp>

using namespace moh;

namespace {

LlamaConfig small_model() {
  return {.vocab_size = 10,
          .layers = 1,
          .hidden = 8,
          .intermediate = 6,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 2};
}

LlamaConfig routed(LlamaConfig config, RouterKind router, std::int64_t shared, std::int64_t top_k) {
  config.moh.router = router;
  config.moh.shared = {shared};
  config.moh.top_k = {top_k};
  return config;
}

}  // namespace

TEST_CASE("llama: FLOPs of a dense step, counted by hand") {
  LlamaConfig config = small_model();
  config.layers = 2;
  config.hidden = 4;
  config.heads = 2;
  config.kv_heads = 1;
  // 15 tokens; 1 + 2 + 3 + 4 + 5 pairs in each of 3 sequences are 45 per head.
  const double queries = 2 * 15 * 4 * 4, keys = 2 * 15 * 4 * 2, values = keys, output = 2 * 15 * 4 * 4;
  const double attention = 45 * 2 * (2 * 2 + 2 * 2);
  const double mlp = 3 * (2 * 15 * 4 * 6);
  const double vocabulary = 2 * 15 * 4 * 10;
  const double forward = 2 * (queries + keys + values + output + attention + mlp) + vocabulary;
  CHECK(forward == 9840);
  const StepFlops flops = step_flops(config, 3, 5);
  CHECK(flops.dense == 3 * forward);
  CHECK(flops.routed == flops.dense);
}

TEST_CASE("llama: FLOPs of a routed step: fewer pairs, a router more") {
  const StepFlops flops = step_flops(routed(small_model(), RouterKind::kLearned, 1, 1), 3, 5);
  const double dense_layer = 1920 + 2 * 1920 + 1920 + 1440 + 4320, vocabulary = 2400;
  const double half_of_attention = 720, router = 2 * 15 * 8 * (3 + 2);  // 3 routed heads, 2 types
  CHECK(flops.dense == 3 * (dense_layer + vocabulary));
  CHECK(flops.routed == 3 * (dense_layer - half_of_attention + router + vocabulary));
}

TEST_CASE("llama: FLOPs follow each layer's own heads") {
  LlamaConfig config = routed(small_model(), RouterKind::kLearned, 1, 1);
  config.layers = 2;
  config.moh.shared = {4, 2};
  config.moh.top_k = {0, 1};
  // The first layer has all heads on, weighed by a router of 4 rows; the second 3 of 4 heads, and a router of
  // 2 shared, 2 routed and 2 type rows.
  const StepFlops flops = step_flops(config, 3, 5);
  CHECK(flops.routed - flops.dense == 3 * (2 * 15 * 8 * 4 - 1440 / 4 + 2 * 15 * 8 * 6));
}

TEST_CASE(
    "llama: FLOPs of query-norm routing have no router matrix, and all heads where the estimator asks") {
  LlamaConfig config = routed(small_model(), RouterKind::kQueryNorm, 1, 1);
  StepFlops flops = step_flops(config, 3, 5);
  CHECK(flops.dense - flops.routed == 3 * 720);
  config.moh.straight_through = StraightThrough::kAll;
  flops = step_flops(config, 3, 5);
  CHECK(flops.routed == flops.dense);
}

TEST_CASE("llama: FLOPs of projections follow the heads that the layers project") {
  LlamaConfig config = routed(small_model(), RouterKind::kLearned, 1, 1);
  config.head_dim = 32;
  const std::int64_t sequences = 2, tokens = 100;  // enough for projecting the chosen heads alone
  const double rows = 200, pairs = 2 * 5050, projection = 2 * rows * 8 * 4 * 32,
               attention = 4 * pairs * 4 * 32;
  const double router = 2 * rows * 8 * (3 + 2);
  StepFlops flops = step_flops(config, sequences, tokens);
  CHECK(flops.dense - flops.routed == 3 * (2 * projection / 2 + attention / 2 - router));
  config.moh.router = RouterKind::kQueryNorm;  // looks at all queries
  flops = step_flops(config, sequences, tokens);
  CHECK(flops.dense - flops.routed == 3 * (projection / 2 + attention / 2));
  config.moh.straight_through = StraightThrough::kAll;
  flops = step_flops(config, sequences, tokens);
  CHECK(flops.routed == flops.dense);
}

TEST_CASE("llama: on a GPU all heads are projected") {
  const HeadRoutingOptions routing{RouterKind::kLearned, {4, 1, 1}};
  constexpr std::int64_t kTokens = 1 << 20;  // projecting by heads pays on the CPU
  const Device gpu{Device::Type::kCuda, 0};
  CHECK(projected_heads(routing, 64, kTokens, kCpu).outputs == 2);
  CHECK(projected_heads(routing, 64, kTokens, gpu).outputs == 4);
  CHECK(projected_heads(routing, 64, kTokens, gpu).queries == 4);
  LlamaConfig config = routed(small_model(), RouterKind::kLearned, 1, 1);
  config.head_dim = 64;
  // Per token: the queries and the output of 2 heads of width 64.
  const double saved = 3 * 2.0 * kTokens * 8 * (2 * 64) * 2;
  CHECK(step_flops(config, 1, kTokens, gpu).routed - step_flops(config, 1, kTokens, kCpu).routed == saved);
}
