// Gates and their gradients on the simulated GPU: the checks of the CPU.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "autograd/node.h"
#include "models/llm/llama.h"
#include "ops/elementwise/add.h"
#include "ops/loss/cross_entropy.h"
#include "tests/cuda_sim/relative_difference.h"
#include "tests/models/layers/straight_through_checks.h"
#include "tests/ops/device_ways.h"
#include "tests/train/trainer/run/gate_training_checks.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kBatch = 2, kTokens = 40;

/// A model that shares one of each 4 heads and keeps 1 of the others.
LlamaConfig small_model(RouterKey router) {
  LlamaConfig c{.vocab_size = 19,
                .layers = 2,
                .hidden = 24,
                .intermediate = 36,
                .heads = 8,
                .kv_heads = 2,
                .head_dim = 8,
                .max_positions = 64,
                .init_std = 0.3};
  c.moh = {.router = router, .num_shared = 2, .top_k = 2};
  return c;
}

/// A model with routed keys and values, and a window of the shared heads.
LlamaConfig routed_keys(RouterKey router, HeadPositions positions) {
  LlamaConfig c = small_model(router);
  c.kv_heads = c.heads;
  c.qk_norm = router == routers::kLearned;
  c.moh.routed = RoutedRows::kQueriesKeysValues;
  c.moh.positions = positions;
  c.moh.shared_window = 5;
  return c;
}

std::unique_ptr<Llama> made(const LlamaConfig& config, Device device) {
  auto model = std::make_unique<Llama>(config, Placement{DType::kFloat32, device});
  model->initialise(5);
  return model;
}

/// Tokens [begin, end) of both texts.
Tensor piece_of(const Tensor& tokens, std::int64_t begin, std::int64_t end) {
  const Tensor piece = empty({kBatch, end - begin}, DType::kInt64);
  for (std::int64_t text = 0; text < kBatch; ++text)
    piece.select(text).copy_from(tokens.select(text).slice(begin, end));
  return piece;
}

/// Compares logits, gradients and decoding of a model on the GPU with those on the CPU.
void check_like_cpu(const LlamaConfig& config) {
  const Device gpu = open_gpu();
  const Tensor tokens = empty({kBatch, kTokens}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.data<std::int64_t>()[i] = i * i * 7 % 19;
  const Tensor documents = empty({kBatch, kTokens}, DType::kInt32);  // of 13 tokens
  for (std::int64_t i = 0; i < documents.numel(); ++i)
    documents.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % kTokens / 13 * 13);
  const auto here = made(config, kCpu), there = made(config, gpu);
  for (const auto* model : {here.get(), there.get()}) {
    const Device device = model == here.get() ? kCpu : gpu;
    const LlamaOutput output =
        model->forward(tokens.to(device), {.training = true, .document_starts = documents.to(device)});
    const Variable loss = cross_entropy(output.logits, tokens.to(device));
    (output.routing.empty() ? loss : add(loss, output.routing[1].balance)).backward();
  }
  const auto a = there->parameters(), b = here->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    CHECK(relative_difference(a[i].variable.grad().to(kCpu), b[i].variable.grad()) < 1e-3);
  }
  KvCache cache = here->make_cache(kBatch, 64), on_gpu = there->make_cache(kBatch, 64);
  for (const auto& [begin, end] : {std::pair{0, 30}, {30, 31}, {31, 34}}) {
    const Tensor piece = piece_of(tokens, begin, end);
    CHECK(relative_difference(there->decode(piece.to(gpu), on_gpu).to(kCpu), here->decode(piece, cache)) <
          1e-3);
  }
}

}  // namespace

TEST_CASE("sim: inside KV groups a model computes what it does on the CPU, forward, backward and decoding") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    LlamaConfig config = small_model(router);
    config.moh.routing = routings::kWithinGroups;
    check_like_cpu(config);
  }
}

TEST_CASE("sim: with the outputs of GQE likewise") {
  LlamaConfig config = small_model(routers::kLearned);
  config.moh.routing = routings::kGqe;
  check_like_cpu(config);
}

TEST_CASE("sim: with routed keys and values likewise") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    for (const HeadPositions positions : {HeadPositions::kSequence, HeadPositions::kHead})
      check_like_cpu(routed_keys(router, positions));
  }
}

TEST_CASE("sim: with gates of attention's output likewise") {
  for (const AttentionGate gate : {AttentionGate::kHead, AttentionGate::kElement}) {
    LlamaConfig config = small_model(routers::kLearned);
    config.attention_gate = gate;
    check_like_cpu(config);
  }
}

TEST_CASE("sim: with mixtures of experts in values and outputs likewise") {
  for (const std::int64_t top_k : {1, 2, 4}) {
    LlamaConfig config = small_model(routers::kNone);
    config.moh = {};
    config.switch_head = {4, top_k};
    check_like_cpu(config);
  }
}

TEST_CASE("sim: straight-through gradients of a whole layer are those of plain loops") {
  check_straight_through({DType::kFloat32, open_gpu()}, 1e-5);
}

TEST_CASE("sim: models with the paper's gates, and with gates of one stage, learn and use them") {
  check_training_with_gates(open_gpu());
}
