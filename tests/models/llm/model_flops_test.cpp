// Operations of a Llama's forward and backward pass, as the profiler counts them in a dry run.

#include <catch2/catch.hpp>

#include "autograd/profile.h"
#include "core/device_clock.h"
#include "core/dry_run.h"
#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"

using namespace moh;

namespace {

constexpr Device kGpu{Device::Type::kCuda, 0};

LlamaConfig small_model() {
  return {.vocab_size = 10,
          .layers = 1,
          .hidden = 8,
          .intermediate = 6,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 2};
}

LlamaConfig routed(LlamaConfig config, RouterKey router, std::int64_t shared, std::int64_t top_k) {
  config.moh.router = router;
  config.moh.num_shared = shared;
  config.moh.top_k = top_k;
  return config;
}

LlamaConfig dense(LlamaConfig config) {
  config.moh = {};
  return config;
}

/// Operations of one step, counted here and now.
double counted_flops(const LlamaConfig& config, std::int64_t sequences, std::int64_t tokens, Device device) {
  Llama model(config, {DType::kFloat32, device});
  model.initialise(1);
  const Tensor ids = zeros({sequences, tokens}, DType::kInt64, device);
  DeviceClock no_clock([] { return 0.0; });
  const Profiler profiler(no_clock);
  cross_entropy(model.forward(ids).logits, ids).backward();
  return profiler.model_flops();
}

double flops(const LlamaConfig& config, std::int64_t sequences, std::int64_t tokens, Device device = kCpu) {
  const DryRunScope scope;
  return counted_flops(config, sequences, tokens, device);
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
  CHECK(flops(config, 3, 5) == 3 * forward);
  CHECK(counted_flops(config, 3, 5, kCpu) == 3 * forward);
  config.recompute = RecomputeLevel::kLayer;  // what is computed again does not count
  CHECK(flops(config, 3, 5) == 3 * forward);
  CHECK(counted_flops(config, 3, 5, kCpu) == 3 * forward);
}

TEST_CASE("llama: gates add the FLOPs of their linear map") {
  LlamaConfig config = small_model();
  const double without = flops(config, 3, 5);
  for (const auto& [gate, rows] : {std::pair{AttentionGate::kHead, 4}, {AttentionGate::kElement, 8}}) {
    config.attention_gate = gate;
    CHECK(flops(config, 3, 5) == without + 3 * (2 * 15 * 8 * rows));
    CHECK(counted_flops(config, 3, 5, kCpu) == without + 3 * (2 * 15 * 8 * rows));
  }
}

TEST_CASE("llama: FLOPs of experts are those that are projected, and of their routers") {
  LlamaConfig config = small_model(), one = config;
  config.switch_head = {4, 2};
  // 15 tokens are too few for lists: values and outputs of 4 heads of 2 are those of 16.
  const double dense_projections = 2 * (2 * 15 * 8 * 8.0), routers = 2 * (2 * 15 * 8 * 16.0);
  CHECK(flops(config, 3, 5) == flops(one, 3, 5) + 3 * (3 * dense_projections + routers));
  CHECK(counted_flops(config, 3, 5, kCpu) == flops(config, 3, 5));
  config.head_dim = one.head_dim = 32;
  const double projection = 2 * 200 * 8 * 4 * 32.0, of_routers = 2 * (2 * 200 * 8 * 16.0);
  const double added = flops(config, 2, 100) - flops(one, 2, 100);  // of 4 experts 2: twice one
  CHECK(added == 3 * (2 * projection + of_routers));
  CHECK(counted_flops(config, 2, 100, kCpu) == flops(config, 2, 100));
  CHECK(flops(config, 2, 100, kGpu) - flops(one, 2, 100, kGpu) == 3 * (2 * 3 * projection + of_routers));
}

TEST_CASE("llama: FLOPs of a routed step: fewer pairs, a router more") {
  const LlamaConfig config = routed(small_model(), routers::kLearned, 1, 1);
  const double dense_layer = 1920 + 2 * 1920 + 1920 + 1440 + 4320, vocabulary = 2400;
  const double half_of_attention = 720, router = 2 * 15 * 8 * (3 + 2);  // 3 routed heads, 2 types
  CHECK(flops(dense(config), 3, 5) == 3 * (dense_layer + vocabulary));
  CHECK(flops(config, 3, 5) == 3 * (dense_layer - half_of_attention + router + vocabulary));
  CHECK(counted_flops(config, 3, 5, kCpu) == flops(config, 3, 5));
}

TEST_CASE("llama: FLOPs follow each layer's own heads") {
  LlamaConfig config = routed(small_model(), routers::kLearned, 1, 1);
  config.layers = 2;
  config.moh.num_shared = PerLayer({4, 2});
  config.moh.top_k = PerLayer({0, 1});
  // The first layer has all heads on, weighed by a router of 4 rows; the second 3 of 4 heads, and a router of
  // 2 shared, 2 routed and 2 type rows.
  CHECK(flops(config, 3, 5) - flops(dense(config), 3, 5) == 3 * (2 * 15 * 8 * 4 - 360.0 + 2 * 15 * 8 * 6));
}

TEST_CASE(
    "llama: FLOPs of query-norm routing have no router matrix, and all heads where the estimator asks") {
  LlamaConfig config = routed(small_model(), routers::kQueryNorm, 1, 1);
  CHECK(flops(dense(config), 3, 5) - flops(config, 3, 5) == 3 * 720);
  config.moh.straight_through = StraightThrough::kAll;
  CHECK(flops(config, 3, 5) == flops(dense(config), 3, 5));
}

TEST_CASE("llama: FLOPs of projections follow the heads that the layers project") {
  LlamaConfig config = routed(small_model(), routers::kLearned, 1, 1);
  config.head_dim = 32;
  const std::int64_t sequences = 2, tokens = 100;  // enough for projecting the chosen heads alone
  const double rows = 200, pairs = 2 * 5050, projection = 2 * rows * 8 * 4 * 32,
               attention = 4 * pairs * 4 * 32;
  const double router = 2 * rows * 8 * (3 + 2), all = flops(dense(config), sequences, tokens);
  CHECK(all - flops(config, sequences, tokens) == 3 * (2 * projection / 2 + attention / 2 - router));
  CHECK(flops(config, sequences, tokens) == counted_flops(config, sequences, tokens, kCpu));
  config.moh.router = routers::kQueryNorm;  // looks at all queries
  CHECK(all - flops(config, sequences, tokens) == 3 * (projection / 2 + attention / 2));
  config.moh.straight_through = StraightThrough::kAll;
  CHECK(flops(config, sequences, tokens) == all);
}

TEST_CASE("llama: on a GPU all heads are projected") {
  LlamaConfig config = routed(small_model(), routers::kLearned, 1, 1);
  config.head_dim = 64;
  config.max_positions = 1 << 19;
  constexpr std::int64_t kSequences = 2, kTokens = 1 << 19;  // projecting by heads pays on the CPU
  // Per token: the queries and the output of 2 heads of width 64.
  const double saved = 3 * 2.0 * kSequences * kTokens * 8 * (2 * 64) * 2;
  CHECK(flops(config, kSequences, kTokens, kGpu) - flops(config, kSequences, kTokens) == saved);
}

TEST_CASE("llama: FLOPs with routed keys are those of each head's own sequence") {
  LlamaConfig config = routed(small_model(), routers::kLearned, 0, 2), lists = config;
  config.moh.routed = RoutedRows::kQueriesKeysValues;
  // A head has 4 of 8 tokens: 10 pairs, in place of half of the 36; (K / H)^2 of longer sequences.
  const double of_pair = 3 * 3 * 4 * (4 * 2);
  for (const Device device : {kCpu, kGpu})
    CHECK(flops(lists, 3, 8, device) - flops(config, 3, 8, device) == of_pair * (18 - 10));
  const auto attention =
      [&](const LlamaConfig& of) {  // less what does not depend on the square of the length
        return flops(of, 1, 2000) - 2 * flops(of, 1, 1000);
      };
  CHECK(attention(config) == attention(dense(config)) / 4);
  // Every token selects every head: what is counted here and now. The window leaves 1 + 2 + 6 * 3 of the 36
  // pairs.
  LlamaConfig all = routed(small_model(), routers::kLearned, 1, 3), windowed = all;
  windowed.moh.routed = RoutedRows::kQueriesKeysValues;
  windowed.moh.shared_window = 3;
  CHECK(flops(all, 3, 8) - flops(windowed, 3, 8) == of_pair / 4 * (36 - 21));
  CHECK(counted_flops(windowed, 3, 8, kCpu) == flops(windowed, 3, 8));
}
