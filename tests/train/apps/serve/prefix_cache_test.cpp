#include "train/apps/serve/prefix_cache.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "models/llm/llama.h"
#include "train/apps/serve/spare_caches.h"

using namespace moh;

namespace {

constexpr std::int64_t kCachedPositions = 400;
using Scores = std::vector<TokenLogprobs>;

std::unique_ptr<Llama> small_model() {
  auto model = std::make_unique<Llama>(LlamaConfig{.vocab_size = 64,
                                                   .layers = 2,
                                                   .hidden = 16,
                                                   .heads = 4,
                                                   .kv_heads = 2,
                                                   .max_positions = kCachedPositions},
                                       DType::kFloat32);
  model->initialise(3);
  return model;
}

std::vector<TokenId> some_prompt(std::int64_t length, std::int64_t seed) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < length; ++i)
    ids.push_back(static_cast<TokenId>((i * i + seed * 7 + i / 3) % 64));
  return ids;
}

/// `prompt`, from token `from` on other tokens.
std::vector<TokenId> changed(std::vector<TokenId> prompt, std::size_t from) {
  for (std::size_t i = from; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>((prompt[i] + 1) % 64);
  return prompt;
}

/// Made-up scores, a function of the tokens before and of the number of alternatives.
Scores scores_of(const std::vector<TokenId>& prompt, std::int64_t top) {
  Scores scores;
  float logprob = 0;
  for (const TokenId id : prompt) {
    TokenLogprobs score{id, {}, {}};
    if (!scores.empty()) {
      score.logprob = logprob;
      for (std::int64_t i = 0; i < top; ++i)
        score.top.push_back({static_cast<TokenId>(i), logprob - static_cast<float>(i)});
    }
    scores.push_back(score);
    logprob = logprob / 2 - static_cast<float>(id);
  }
  return scores;
}

bool equal(const Scores& a, const Scores& b) {
  const auto same = [](const TokenLogprobs& x, const TokenLogprobs& y) {
    return x.id == y.id && x.logprob == y.logprob &&
           std::ranges::equal(x.top, y.top, [](const TokenLogprob& s, const TokenLogprob& t) {
             return s.id == t.id && s.logprob == t.logprob;
           });
  };
  return std::ranges::equal(a, b, same);
}

struct Prefixes {
  explicit Prefixes(std::int64_t bytes = 1 << 24) : cache(bytes, metrics) {}

  /// Computes all of a prompt, and adds it.
  KvCache add(const std::vector<TokenId>& prompt, std::optional<std::int64_t> top = {}) {
    KvCache computed = model->make_cache(1, kCachedPositions);
    computed.keep_last(true);
    model->decode_hidden(tensor_of<TokenId>({1, std::ssize(prompt)}, prompt), computed);
    cache.add(prompt, 0, std::ssize(prompt), computed, top, top ? scores_of(prompt, *top) : Scores());
    CHECK(metrics.prefix_bytes >= 0);
    return computed;
  }
  std::int64_t held(const std::vector<TokenId>& prompt, std::optional<std::int64_t> top = {}) {
    KvCache found = model->make_cache(1, kCachedPositions);
    Scores scores;
    const std::int64_t count = cache.begin_with(prompt, kCachedPositions, top, found, scores);
    CHECK(found.length() == count);
    if (top && count > 0) {
      Scores expected = scores_of(prompt, *top);
      expected.resize(static_cast<std::size_t>(count) + 1);
      CHECK(equal(scores, expected));
    } else {
      CHECK(scores.empty());
    }
    return count;
  }

  std::unique_ptr<Llama> model = small_model();
  ServerMetrics metrics;
  PrefixCache cache;
};

}  // namespace

TEST_CASE("prefix cache: the common beginning of two texts ends where they first differ, wherever that is") {
  const std::vector<TokenId> prompt = some_prompt(100, 1);
  for (std::size_t i = 0; i <= prompt.size(); ++i) {
    CHECK(common_beginning(prompt, changed(prompt, i)) == static_cast<std::int64_t>(i));
    CHECK(common_beginning(std::span(prompt).first(i), prompt) == static_cast<std::int64_t>(i));
  }
}

TEST_CASE("prefix cache: prompts share what they begin with, to the token, and its bits") {
  Prefixes prefixes;
  const std::vector<TokenId> prompt = some_prompt(200, 1);
  const KvCache computed = prefixes.add(prompt);
  CHECK(prefixes.held(some_prompt(200, 2)) == 0);
  for (const std::size_t same : {1, 63, 64, 65, 130, 199, 200}) {
    KvCache found = prefixes.model->make_cache(1, kCachedPositions);
    Scores none;
    const std::int64_t count =
        prefixes.cache.begin_with(changed(prompt, same), kCachedPositions, {}, found, none);
    REQUIRE(count == static_cast<std::int64_t>(same));
    for (std::size_t layer = 0; layer < found.layers.size(); ++layer) {
      for (const std::int64_t head : {0, 1}) {
        const auto rows = [&](const Tensor& slots) { return slots.select(0).select(head).slice(0, count); };
        const LayerCache &a = found.layers[layer], &b = computed.layers[layer];
        CHECK(std::memcmp(rows(a.k()).raw(), rows(b.k()).raw(), rows(a.k()).bytes()) == 0);
        CHECK(std::memcmp(rows(a.v()).raw(), rows(b.v()).raw(), rows(a.v()).bytes()) == 0);
      }
    }
  }
  KvCache few = prefixes.model->make_cache(1, kCachedPositions);
  Scores none;
  CHECK(prefixes.cache.begin_with(prompt, 77, {}, few, none) == 77);
}

TEST_CASE("prefix cache: prompts branch off within pages, and what they share is held once") {
  Prefixes prefixes;
  const std::vector<TokenId> prompt = some_prompt(200, 1);
  prefixes.add(prompt);
  const std::int64_t one = prefixes.metrics.prefix_bytes;
  prefixes.add(prompt);
  CHECK(prefixes.metrics.prefix_bytes == one);
  prefixes.add(changed(prompt, 190));
  const std::int64_t two = prefixes.metrics.prefix_bytes;
  CHECK(two - one < one / 4);
  prefixes.add(changed(prompt, 70));
  CHECK(prefixes.held(prompt) == 200);
  CHECK(prefixes.held(changed(prompt, 190)) == 200);
  CHECK(prefixes.held(changed(prompt, 70)) == 200);
  CHECK(prefixes.held(changed(changed(prompt, 70), 195)) == 195);
  CHECK(prefixes.held(changed(prompt, 69)) == 69);
  // A prompt that goes on behind the end of another.
  std::vector<TokenId> longer = some_prompt(300, 1);
  prefixes.add(longer);
  CHECK(prefixes.held(longer) == 300);
}

TEST_CASE("prefix cache: scores are used as far as they are held, with as many alternatives as are wanted") {
  Prefixes prefixes;
  const std::vector<TokenId> prompt = some_prompt(150, 1);
  prefixes.add(prompt);
  CHECK(prefixes.held(prompt, 1) == 0);  // nobody asked for scores yet
  prefixes.add(prompt, 1);
  CHECK(prefixes.held(prompt, 1) == 149);  // the last token's score is that of the row before it
  CHECK(prefixes.held(prompt, 0) == 149);
  CHECK(prefixes.held(prompt, 2) == 0);
  CHECK(prefixes.held(changed(prompt, 100), 1) == 99);
  prefixes.add(changed(prompt, 100), 5);
  CHECK(prefixes.held(changed(prompt, 100), 5) == 149);
  CHECK(prefixes.held(prompt, 5) == 99);
  CHECK(prefixes.held(prompt, 1) == 149);
  CHECK(prefixes.held(prompt) == 150);
  prefixes.add(changed(prompt, 1), 1);
  CHECK(prefixes.held(changed(prompt, 1), 1) == 149);
}

TEST_CASE("prefix cache: what was used least recently makes room, and pages go before those they follow") {
  Prefixes measured;
  measured.add(some_prompt(200, 1), 2);
  const std::int64_t one = measured.metrics.prefix_bytes;
  Prefixes prefixes(3 * one);
  for (std::int64_t seed = 1; seed <= 3; ++seed) prefixes.add(some_prompt(200, seed), 2);
  CHECK(prefixes.held(some_prompt(200, 1), 2) == 199);  // used again
  prefixes.add(some_prompt(200, 4), 2);
  CHECK(prefixes.metrics.prefix_bytes <= 3 * one);
  CHECK(prefixes.held(some_prompt(200, 1)) == 200);
  CHECK(prefixes.held(some_prompt(200, 4)) == 200);
  CHECK(prefixes.held(some_prompt(200, 2)) < 200);
  for (std::int64_t seed = 5; seed < 60; ++seed) {
    prefixes.add(changed(some_prompt(200, seed % 7), static_cast<std::size_t>(seed * 37 % 200)), seed % 3);
    REQUIRE(prefixes.metrics.prefix_bytes <= 3 * one);
  }
  prefixes.cache.clear();
  CHECK(prefixes.metrics.prefix_bytes == 0);
  CHECK(prefixes.held(some_prompt(200, 1)) == 0);
}

TEST_CASE("prefix cache: of a prompt that is larger than all of it the beginning is held") {
  Prefixes measured;
  measured.add(some_prompt(64, 1));
  Prefixes prefixes(measured.metrics.prefix_bytes * 5 / 2);
  prefixes.add(some_prompt(300, 1));
  CHECK(prefixes.held(some_prompt(300, 1)) == 128);
  Prefixes tiny(10);
  tiny.add(some_prompt(300, 1), 1);
  CHECK(tiny.held(some_prompt(300, 1)) == 0);
  CHECK(tiny.metrics.prefix_bytes == 0);
}

TEST_CASE("prefix cache: a piece whose beginning is no longer held is not kept") {
  Prefixes prefixes;
  const std::vector<TokenId> prompt = some_prompt(200, 1);
  KvCache computed = prefixes.model->make_cache(1, kCachedPositions);
  computed.keep_last(true);
  prefixes.model->decode_hidden(tensor_of<TokenId>({1, 200}, prompt), computed);
  prefixes.cache.add(prompt, 100, 200, computed, {}, {});
  CHECK(prefixes.metrics.prefix_bytes == 0);
}

TEST_CASE(
    "prefix cache: what a cache has in place is not copied, and what others have left in it is forgotten") {
  Prefixes prefixes;
  const std::vector<TokenId> prompt = some_prompt(200, 1), other = changed(prompt, 120);
  prefixes.add(prompt, 1);
  KvCache expected = prefixes.model->make_cache(1, kCachedPositions);
  Scores none;
  prefixes.cache.begin_with(other, kCachedPositions, {}, expected, none);
  for (const std::int64_t in_place : {0, 1, 64, 100, 120, 150}) {
    KvCache cache = prefixes.model->make_cache(1, kCachedPositions);
    if (in_place > 0) prefixes.cache.begin_with(prompt, in_place, {}, cache, none);
    Scores scores;
    REQUIRE(prefixes.cache.begin_with(other, kCachedPositions, 1, cache, scores) == 119);
    CHECK(cache.length() == 119);
    CHECK(scores.size() == 120);
    const auto rows = [](const KvCache& of) { return of.layers[1].v().select(0).select(1).slice(0, 119); };
    CHECK(std::memcmp(rows(cache).raw(), rows(expected).raw(), rows(cache).bytes()) == 0);
  }
}

TEST_CASE("serve: a spare cache is that with the longest common beginning and room for the text") {
  const auto model = small_model();
  const auto cache_of = [&](std::int64_t capacity, std::int64_t length) {
    KvCache cache = model->make_cache(1, capacity);
    model->decode_hidden(tensor_of<TokenId>({1, length}, some_prompt(length, 1)), cache);
    return cache;
  };
  const std::vector<TokenId> prompt = some_prompt(50, 1);
  SpareCaches spares(200 * cache_of(1, 1).bytes());
  CHECK_FALSE(spares.take(prompt, 1).has_value());
  spares.keep(changed(prompt, 20), cache_of(100, 60));  // ten tokens of a text came after the prompt
  spares.keep(changed(prompt, 30), cache_of(60, 50));
  const std::optional<KvCache> wide = spares.take(prompt, 61);
  REQUIRE(wide.has_value());
  CHECK((wide->capacity() == 100 && wide->length() == 20));
  CHECK_FALSE(spares.take(prompt, 61).has_value());
  spares.keep(changed(prompt, 10), cache_of(100, 50));
  spares.shrink(159);  // the one that was kept first goes
  const std::optional<KvCache> left = spares.take(prompt, 1);
  REQUIRE(left.has_value());
  CHECK((left->capacity() == 100 && left->length() == 10));
  spares.keep(prompt, cache_of(110, 50));
  spares.keep(changed(prompt, 15), cache_of(100, 50));  // too much with the one before
  CHECK_FALSE(spares.take(prompt, 101).has_value());
  CHECK(spares.take(prompt, 1)->length() == 15);
  spares.keep(prompt, cache_of(60, 50));
  spares.shrink(0);
  CHECK_FALSE(spares.take(prompt, 1).has_value());
}
