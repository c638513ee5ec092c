// Texts of different lengths that are decoded together.

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "core/error.h"
#include "models/llm/llama.h"
#include "tests/models/llm/tiny_llama.h"

using namespace moh;

namespace {

constexpr std::int64_t kVocab = 19, kPositions = 48;

std::unique_ptr<Llama> model_of(LlamaConfig config, DType dtype = DType::kFloat32) {
  config.max_positions = kPositions;
  auto model = std::make_unique<Llama>(config, dtype);
  model->initialise(4);
  return model;
}

std::int64_t some_token(std::int64_t text, std::int64_t position) {
  return (text * 7 + position * position + position / 3) % kVocab;
}

/// The cache of text number `text` after its first `length` tokens.
KvCache prompted(const Llama& model, std::int64_t text, std::int64_t length) {
  KvCache cache = model.make_cache(1, kPositions);
  if (length == 0) return cache;
  const Tensor tokens = empty({1, length}, DType::kInt64);
  for (std::int64_t t = 0; t < length; ++t) tokens.data<std::int64_t>()[t] = some_token(text, t);
  model.decode_hidden(tokens, cache);
  return cache;
}

std::int64_t length_of(std::int64_t text) {
  return (text * 5) % 23;
}

/// Logits of `steps` tokens after the prompts of texts first, first + 1, ... , by text and step.
std::vector<std::vector<float>> together(const Llama& model, std::int64_t first, std::int64_t texts,
                                         std::int64_t steps) {
  std::vector<KvCache> caches;
  for (std::int64_t b = 0; b < texts; ++b) caches.push_back(prompted(model, first + b, length_of(first + b)));
  std::vector<KvCache*> pointers;
  for (KvCache& cache : caches) pointers.push_back(&cache);
  std::vector<std::vector<float>> logits(static_cast<std::size_t>(texts));
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor tokens = empty({texts}, DType::kInt64);
    for (std::int64_t b = 0; b < texts; ++b)
      tokens.data<std::int64_t>()[b] = some_token(first + b, length_of(first + b) + step);
    const Tensor rows = model.decode_each(tokens, pointers).to(DType::kFloat32);
    for (std::int64_t b = 0; b < texts; ++b) {
      const auto row = rows.select(b).span<float>();
      logits[static_cast<std::size_t>(b)].insert(logits[static_cast<std::size_t>(b)].end(), row.begin(),
                                                 row.end());
    }
  }
  return logits;
}

std::vector<float> alone(const Llama& model, std::int64_t text, std::int64_t steps) {
  KvCache cache = prompted(model, text, length_of(text));
  std::vector<float> logits;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor token =
        full({1, 1}, static_cast<double>(some_token(text, length_of(text) + step)), DType::kInt64);
    const Tensor row = model.decode(token, cache).to(DType::kFloat32);
    logits.insert(logits.end(), row.span<float>().begin(), row.span<float>().end());
  }
  return logits;
}

std::vector<LlamaConfig> kinds_of_models() {
  std::vector<LlamaConfig> kinds;
  for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm})
    kinds.push_back(test::tiny_llama(router));
  kinds.push_back(test::tiny_llama());
  kinds.back().sliding_window = 6;
  kinds.push_back(test::tiny_llama());
  kinds.back().qk_norm = kinds.back().qkv_bias = true;
  for (const AttentionGate gate : {AttentionGate::kHead, AttentionGate::kElement}) {
    kinds.push_back(test::tiny_llama());
    kinds.back().attention_gate = gate;
  }
  kinds.push_back(test::tiny_llama(routers::kNone));
  kinds.back().switch_head = {3, 2};
  kinds.push_back(test::tiny_llama());
  kinds.back().rope_scaling = {.kind = RopeScalingKind::kDynamic, .factor = 2, .original_positions = 8};
  for (const HeadPositions positions : {HeadPositions::kSequence, HeadPositions::kHead}) {
    kinds.push_back(test::tiny_llama());
    kinds.back().kv_heads = kinds.back().heads;
    kinds.back().qk_norm = positions == HeadPositions::kHead;
    kinds.back().moh.routed = RoutedRows::kQueriesKeysValues;
    kinds.back().moh.positions = positions;
    kinds.back().moh.shared_window = 4;
  }
  kinds.push_back(test::tiny_llama());
  kinds.back().moh.routing = routings::kGroups;
  kinds.back().moh.num_shared = 0;
  kinds.back().moh.top_k = 1;
  for (const RoutingKey routing : {routings::kWithinGroups, routings::kGqe}) {
    kinds.push_back(test::tiny_llama());
    kinds.back().moh.routing = routing;
    kinds.back().moh.num_shared = 0;
    kinds.back().moh.top_k = kinds.back().kv_heads;
  }
  return kinds;
}

}  // namespace

TEST_CASE("models: texts decoded together have the bits of each alone, whatever is beside them") {
  constexpr std::int64_t kSteps = 3;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const LlamaConfig& config : kinds_of_models()) {
      const auto model = model_of(config, dtype);
      for (const std::int64_t texts : {1, 2, 7, 33}) {
        const std::vector<std::vector<float>> rows = together(*model, 0, texts, kSteps);
        for (std::int64_t b = 0; b < texts; ++b) {
          INFO(dtype_name(dtype) << ", text " << b << " of " << texts);
          CHECK(rows[static_cast<std::size_t>(b)] == alone(*model, b, kSteps));
        }
      }
    }
  }
}

TEST_CASE("models: decoding wide heads together has the bits of each alone, of any number of texts") {
  LlamaConfig config = test::tiny_llama();
  config.hidden = 64;
  config.head_dim = 32;  // in training the selected heads alone are projected, of enough tokens
  const auto model = model_of(config);
  for (const std::int64_t texts : {127, 130, 260}) {
    const std::vector<std::vector<float>> rows = together(*model, 0, texts, 1);
    for (std::int64_t b = 0; b < texts; ++b)
      REQUIRE(rows[static_cast<std::size_t>(b)] == alone(*model, b, 1));
  }
}

TEST_CASE("models: a copy of a cache goes on apart from it") {
  const auto model = model_of(test::tiny_llama());
  KvCache cache = prompted(*model, 0, 5), copy = cache.clone();
  const auto step = [&](KvCache& of, double token) {
    return model->decode(full({1, 1}, token, DType::kInt64), of).select(0).clone();
  };
  const Tensor first = step(cache, 3);
  step(copy, 8);
  CHECK(copy.length() == 6);
  const Tensor next = step(cache, 4);
  KvCache again = prompted(*model, 0, 5);
  CHECK(std::ranges::equal(step(again, 3).span<float>(), first.span<float>()));
  CHECK(std::ranges::equal(step(again, 4).span<float>(), next.span<float>()));
}

TEST_CASE("models: what cannot be decoded together is refused") {
  const auto model = model_of(test::tiny_llama());
  KvCache cache = model->make_cache(1, kPositions), full_cache = prompted(*model, 0, kPositions);
  std::vector<KvCache*> caches{&cache};
  CHECK_THROWS_WITH(model->decode_each(full({2}, 1, DType::kInt64), caches),
                    "llama: tokens: expected one or more of each of 1 caches, [1], found [2]");
  CHECK_THROWS_AS(model->decode_each(full({0}, 1, DType::kInt64), {}), ShapeError);
  caches.push_back(&full_cache);
  CHECK_THROWS_WITH(model->decode_each(full({2}, 1, DType::kInt64), caches),
                    "llama: tokens: expected at most max_positions (48), found 49");
  CHECK(cache.length() == 0);
}
