// Sliding windows: what a token sees, and what a cache keeps of it.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/llm/tiny_llama.h"

using namespace moh;

namespace {

constexpr std::int64_t kTokens = 150, kVocab = 19;

LlamaConfig with_window(RouterKey router, const PerLayer& window, std::int64_t layers = 2) {
  LlamaConfig c = test::tiny_llama(router);
  c.layers = layers;
  c.max_positions = kTokens;
  c.sliding_window = window;
  return c;
}

std::unique_ptr<Llama> model_of(const LlamaConfig& config) {
  auto model = std::make_unique<Llama>(config, DType::kFloat32);
  model->initialise(4);
  return model;
}

Tensor some_tokens(std::int64_t batch, std::int64_t length) {
  Tensor tokens = empty({batch, length}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.data<std::int64_t>()[i] = (i * i + i / 5) % kVocab;
  return tokens;
}

bool same_row(const Tensor& a, const Tensor& b, std::int64_t row) {
  const float *const x = a.data<float>() + row * kVocab, *const y = b.data<float>() + row * kVocab;
  return std::equal(x, x + kVocab, y);
}

constexpr RouterKey kRouters[] = {routers::kNone, routers::kLearned, routers::kQueryNorm};

}  // namespace

TEST_CASE("windows: a token sees the tokens of its window and no other") {
  for (const RouterKey router : kRouters) {
    constexpr std::int64_t kLength = 40, kWindow = 7, kChanged = 12;
    const auto model = model_of(with_window(router, kWindow, /*layers=*/1));
    Tensor tokens = some_tokens(1, kLength);
    const Tensor before = model->forward(tokens).logits.value();
    tokens.data<std::int64_t>()[kChanged] = (tokens.data<std::int64_t>()[kChanged] + 1) % kVocab;
    const Tensor after = model->forward(tokens).logits.value();
    for (std::int64_t t = 0; t < kLength; ++t)
      CHECK(same_row(before, after, t) == (t < kChanged || t >= kChanged + kWindow));
  }
}

TEST_CASE("windows: with two layers a token depends on two windows, and a layer without one on all") {
  constexpr std::int64_t kLength = 40, kWindow = 7;
  const auto depends = [&](const PerLayer& window, std::int64_t changed, std::int64_t on) {
    const auto model = model_of(with_window(routers::kNone, window));
    Tensor tokens = some_tokens(1, kLength);
    const Tensor before = model->forward(tokens).logits.value();
    tokens.data<std::int64_t>()[changed] = (tokens.data<std::int64_t>()[changed] + 1) % kVocab;
    return !same_row(before, model->forward(tokens).logits.value(), on);
  };
  CHECK(depends(kWindow, 0, 2 * (kWindow - 1)));
  CHECK_FALSE(depends(kWindow, 0, 2 * (kWindow - 1) + 1));
  for (const PerLayer& mixed : {PerLayer({0, kWindow}), PerLayer({kWindow, 0})})
    CHECK(depends(mixed, 0, kLength - 1));
}

TEST_CASE("windows: one that is as long as the sequence changes no bit, also of gradients") {
  const auto results = [](std::int64_t window) {
    const auto model = model_of(with_window(routers::kLearned, window));
    const Tensor tokens = some_tokens(2, 24);
    const Variable logits = model->forward(tokens).logits;
    std::vector<Tensor> found = {logits.value().clone()};
    cross_entropy(logits, tokens, {.normalizer = 48}).backward();
    for (const NamedParameter& p : model->parameters()) found.push_back(p.variable.grad());
    return found;
  };
  const std::vector<Tensor> without = results(0), idle = results(24), within = results(23);
  const auto same = [](const Tensor& a, const Tensor& b) {
    return std::memcmp(a.data<float>(), b.data<float>(),
                       static_cast<std::size_t>(a.numel()) * sizeof(float)) == 0;
  };
  for (std::size_t i = 0; i < without.size(); ++i) CHECK(same(without[i], idle[i]));
  CHECK_FALSE(same(without[0], within[0]));
}

TEST_CASE("windows: decoding, in pieces of any length, equals the whole forward pass") {
  constexpr std::int64_t kLong = 1300, kSlots = 9 + 512 + 65;  // slots of the window
  for (const RouterKey router : kRouters) {
    LlamaConfig config = with_window(router, PerLayer({9, 0}));
    config.max_positions = kLong;
    const auto model = model_of(config);
    const Tensor tokens = some_tokens(2, kLong);
    const Tensor whole = model->forward(tokens).logits.value();
    // A token at a time, beyond the slots several times; more than the slots at once, first and later.
    for (const std::vector<std::int64_t>& pieces : {std::vector<std::int64_t>(kLong, 1),
                                                    std::vector<std::int64_t>{kLong},
                                                    {800, 1, 1, 5, 493},
                                                    {3, 790, 507},
                                                    {kSlots - 2, 8, 708},
                                                    {kSlots, 1, 713},
                                                    {650, 650}}) {
      KvCache cache = model->make_cache(2, kLong);
      CHECK(cache.layers[0].k().dim(2) == kSlots);
      CHECK(cache.layers[1].k().dim(2) == kLong);
      std::int64_t done = 0;
      for (const std::int64_t count : pieces) {
        const Tensor part = empty({2, count}, DType::kInt64);
        for (const std::int64_t b : {0, 1})
          part.select(b).copy_from(tokens.select(b).slice(done, done + count));
        const Tensor logits = model->decode(part, cache);
        done += count;
        CHECK(cache.length() == done);
        for (std::int64_t i = 0; i < 2 * kVocab; ++i) {
          const float expected = whole.data<float>()[(i / kVocab * kLong + done - 1) * kVocab + i % kVocab];
          CHECK(logits.data<float>()[i] == Approx(expected).margin(1e-5));
        }
      }
      REQUIRE(done == kLong);
      CHECK_THROWS_AS(model->decode(some_tokens(2, 1), cache), ShapeError);
    }
  }
}

TEST_CASE("windows: a cache that has all its tokens can be rewound, and goes on as if they had not been") {
  for (const RouterKey router : kRouters) {
    LlamaConfig config = with_window(router, PerLayer({9, 0}));
    config.max_positions = 700;
    const auto model = model_of(config);
    KvCache cache = model->make_cache(1, 700), other = model->make_cache(1, 700);
    CHECK(cache.capacity() == 700);
    const Tensor first = some_tokens(1, 100), more = some_tokens(1, 50);
    model->decode(first, cache);
    model->decode(first, other);
    model->decode(full({1, 30}, 3, DType::kInt64), cache);  // and forget them
    cache.rewind(100);
    CHECK(cache.length() == 100);
    const Tensor again = model->decode(more, cache), expected = model->decode(more, other);
    CHECK(std::memcmp(again.raw(), expected.raw(), expected.bytes()) == 0);
    CHECK_THROWS_WITH(cache.rewind(151), Catch::Contains("0 to the 150 tokens so far"));
    model->decode(some_tokens(1, 500), cache);
    CHECK_FALSE(cache.holds_all());
    CHECK_THROWS_WITH(cache.rewind(5), Catch::Contains("5 with 138 tokens in the cache"));
  }
}

TEST_CASE("windows: a cache takes the tokens that it was made for") {
  const auto model = model_of(with_window(routers::kNone, 9));
  KvCache cache = model->make_cache(1, 100);
  model->decode(some_tokens(1, 99), cache);
  CHECK_THROWS_WITH(model->decode(some_tokens(1, 2), cache),
                    Catch::Contains("at most the capacity of 100, found 101"));
  model->decode(some_tokens(1, 1), cache);
  CHECK(cache.length() == 100);
}

TEST_CASE("windows: what is no window is refused") {
  const auto refusal = [](const PerLayer& window) {
    try {
      require_valid(with_window(routers::kNone, window));
    } catch (const ValueError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal(PerLayer({3, 0})).empty());
  CHECK_THAT(refusal(-1), Catch::Contains("sliding_window: expected 0 or more, found -1"));
  CHECK_THAT(refusal(PerLayer({1, -2})), Catch::Contains("sliding_window: expected 0 or more, found -2"));
  CHECK_THAT(refusal(PerLayer({1, 2, 3})),
             Catch::Contains(
                 "sliding_window: expected one value, or one per layer (layers is 2), found a list of 3"));
  LlamaConfig same = with_window(routers::kNone, PerLayer({5, 5}));
  CHECK(spelt_out(same).sliding_window == PerLayer(5));
}
