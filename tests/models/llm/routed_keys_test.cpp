#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/node.h"
#include "core/error.h"
#include "models/layers/attention_observer.h"
#include "models/llm/llama.h"
#include "ops/elementwise/add.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/llm/routed_llama.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

/// 6 heads, of which one is shared and 2 of the others are kept.
LlamaConfig routed(RouterKey router, HeadPositions positions, std::int64_t shared_window = 0) {
  LlamaConfig c{.vocab_size = 19,
                .layers = 2,
                .hidden = 24,
                .intermediate = 36,
                .heads = 6,
                .head_dim = 8,
                .max_positions = 160};
  c.qk_norm = router == routers::kLearned;
  c.moh = {.router = router,
           .routed = RoutedRows::kQueriesKeysValues,
           .positions = positions,
           .shared_window = shared_window,
           .num_shared = 1,
           .top_k = 2};
  return c;
}

/// All kinds of models of the tests below.
std::vector<LlamaConfig> kinds() {
  std::vector<LlamaConfig> all;
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    for (const HeadPositions positions : {HeadPositions::kSequence, HeadPositions::kHead}) {
      for (const std::int64_t window : {0, 3}) all.push_back(routed(router, positions, window));
    }
  }
  return all;
}

/// Tokens [begin, end) of each text.
Tensor piece_of(const Tensor& tokens, std::int64_t begin, std::int64_t end) {
  Tensor piece = empty({tokens.dim(0), end - begin}, DType::kInt64);
  for (std::int64_t b = 0; b < tokens.dim(0); ++b)
    piece.select(b).copy_from(tokens.select(b).slice(begin, end));
  return piece;
}

}  // namespace

TEST_CASE("models: routed keys of heads that all tokens select are those of the dense model") {
  const Tensor tokens = some_tokens(2, 70);
  for (const HeadPositions positions : {HeadPositions::kSequence, HeadPositions::kHead}) {
    LlamaConfig config = routed(routers::kQueryNorm, positions, 200);
    config.moh.top_k = 5;
    const auto model = made(config);
    const LlamaOutput all = model->forward(tokens), dense = model->forward(tokens, {.all_heads = true});
    CHECK(same_bits(all.logits.value(), dense.logits.value()));
    CHECK(all.routing[0].computed_heads == 6);
  }
}

TEST_CASE("models: a window of the shared heads, and positions in the head, change what they should") {
  const NoGrad no_grad;
  const auto logits = [](HeadPositions positions, std::int64_t window, std::int64_t tokens) {
    return made(routed(routers::kLearned, positions, window))->forward(some_tokens(1, tokens)).logits.value();
  };
  for (const HeadPositions positions : {HeadPositions::kSequence, HeadPositions::kHead}) {
    CHECK(same_bits(logits(positions, 0, 12), logits(positions, 12, 12)));
    const Tensor whole = logits(positions, 0, 12).reshape({12, 19}),
                 windowed = logits(positions, 3, 12).reshape({12, 19});
    CHECK(same_bits(whole.slice(0, 3).clone(), windowed.slice(0, 3).clone()));
    CHECK(difference_to(windowed.select(11).clone(), whole.select(11).clone()) > 1e-3);
  }
  CHECK(difference_to(logits(HeadPositions::kHead, 0, 12), logits(HeadPositions::kSequence, 0, 12)) > 1e-3);
}

TEST_CASE("models: decoding with routed keys gives what the forward pass computes") {
  const NoGrad no_grad;
  const Tensor tokens = some_tokens(2, 150);
  for (const LlamaConfig& config : kinds()) {
    const auto model = made(config);
    const Tensor whole = model->forward(tokens).logits.value();
    KvCache cache = model->make_cache(2, 160);
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 100}, {100, 101}, {101, 120}, {120, 150}}) {
      const Tensor logits = model->decode(piece_of(tokens, begin, end), cache);
      CHECK(cache.length() == end);
      for (std::int64_t b = 0; b < 2; ++b)
        CHECK(difference_to(logits.select(b).clone(), whole.select(b).select(end - 1).clone()) < 1e-4);
    }
  }
}

TEST_CASE("models: a cache of routed keys has the selected rows, and goes on apart from its copy") {
  const NoGrad no_grad;
  LlamaConfig config = routed(routers::kLearned, HeadPositions::kHead, 4);
  config.heads = 24;  // so that 2 in 23 of the routed rows are stored
  const auto model = made(config);
  const Tensor tokens = some_tokens(1, 150);
  KvCache cache = model->make_cache(1, 155);
  CHECK_FALSE(cache.holds_all());
  model->decode(tokens, cache);
  std::int64_t bytes = 0;
  for (LayerCache& layer : cache.layers) {
    REQUIRE(layer.heads().size() == 24);
    std::int64_t rows = 0;
    for (const LayerCache& head : layer.heads()) {
      rows += head.length();
      CHECK(head.k().dim(2) <= (&head == layer.heads().data() ? 155 : head.length() * 9 / 8 + 64));
      bytes += 2 * head.k().dim(2) * 8 * 4;
    }
    CHECK(rows == 150 * 3);
  }
  CHECK(cache.bytes() == bytes);
  CHECK_THROWS_WITH(cache.rewind(5), Catch::Contains("kv cache: length to rewind to"));
  CHECK_THROWS_WITH(model->decode(some_tokens(1, 6), cache),
                    "kv cache: tokens: expected at most the capacity of 155, found 156");
  CHECK(cache.length() == 150);

  KvCache copy = cache.clone();
  const Tensor token = full({1, 1}, 7, DType::kInt64), other = full({1, 1}, 3, DType::kInt64);
  const Tensor first = model->decode(token, cache);
  model->decode(other, copy);
  const Tensor second = model->decode(other, cache);
  KvCache again = model->make_cache(1, 155);
  model->decode(tokens, again);
  CHECK(same_bits(model->decode(token, again), first));
  CHECK(same_bits(model->decode(other, again), second));
}

TEST_CASE("models: with routed keys the documents of a packed sequence are as each alone") {
  const std::vector<std::int64_t> begins = {0, 5, 6, 30, 40};
  const Tensor tokens = some_tokens(1, 40), starts = empty({1, 40}, DType::kInt32);
  for (std::size_t d = 0; d + 1 < begins.size(); ++d) {
    for (std::int64_t t = begins[d]; t < begins[d + 1]; ++t)
      starts.data<std::int32_t>()[t] = static_cast<std::int32_t>(begins[d]);
  }
  const NoGrad no_grad;
  for (const LlamaConfig& config : kinds()) {
    const auto model = made(config);
    const Tensor packed =
        model->forward(tokens, {.document_starts = starts, .reset_positions = true}).logits.value();
    for (std::size_t d = 0; d + 1 < begins.size(); ++d) {
      const Tensor alone = model->forward(piece_of(tokens, begins[d], begins[d + 1])).logits.value();
      CHECK(difference_to(packed.select(0).slice(begins[d], begins[d + 1]).clone(), alone) < 1e-4);
    }
  }
}

TEST_CASE(
    "models: routers of routed keys learn, and the same in recomputed layers and with projected pairs") {
  const Tensor tokens = some_tokens(2, 150);
  for (LlamaConfig config : kinds()) {
    config.head_dim = 32;  // selected heads alone are projected, of enough tokens
    const auto kept = made(config);
    config.recompute = RecomputeLevel::kLayer;
    const auto recomputed = made(config);
    for (const auto* model : {kept.get(), recomputed.get()}) {
      const LlamaOutput output = model->forward(tokens, {.training = true});
      CHECK(output.routing[0].computed_heads == 3);
      CHECK(output.routing[0].load.numel() == 5);
      add(cross_entropy(output.logits, tokens), output.routing[1].balance).backward();
    }
    const auto a = kept->parameters(), b = recomputed->parameters();
    for (std::size_t i = 0; i < a.size(); ++i) {
      INFO(a[i].name);
      CHECK(same_bits(a[i].variable.grad(), b[i].variable.grad()));
      CHECK(a[i].variable.grad().all_finite());
      if (a[i].name.ends_with("proj.weight") || a[i].name.ends_with(".wg.weight"))
        CHECK(std::ranges::any_of(a[i].variable.grad().span<float>(), [](float v) { return v != 0; }));
    }
  }
  LlamaConfig config = routed(routers::kLearned, HeadPositions::kHead);
  config.moh.top_k_anneal_until = 0.5;
  const auto model = made(config);
  CHECK(model->forward(tokens, {.training = true}).routing[1].computed_heads == 6);
  CHECK(model->forward(tokens).routing[1].computed_heads == 3);
}

TEST_CASE("models: an observer of routed keys sees no queries and keys of all tokens") {
  struct Seen : AttentionObserver {
    void observe(const AttentionTrace& trace) override {
      CHECK_FALSE(trace.q.defined());
      CHECK_FALSE(trace.k.defined());
      CHECK(trace.heads.shape() == Shape{1, 9, 6, 8});
      ++layers;
    }
    int layers = 0;
  } seen;
  made(routed(routers::kLearned, HeadPositions::kHead))->forward(some_tokens(1, 9), {.observer = &seen});
  CHECK(seen.layers == 2);
}

TEST_CASE("models: what does not go together with routed keys is refused") {
  const auto refusal = [](auto change) {
    LlamaConfig config = routed(routers::kLearned, HeadPositions::kHead);
    change(config);
    ConfigFaults faults;
    check(config, faults);
    REQUIRE(faults.all().size() == 1);
    const ConfigFaults::Fault& fault = faults.all()[0];
    return fault.keys[0] + ": expected " + fault.expected + ", found " + fault.found + "; " + fault.fix;
  };
  CHECK(refusal([](LlamaConfig& c) { c.kv_heads = 2; }) ==
        "moh.routed: expected queries where heads share a KV head (heads is 6, kv_heads 2), found "
        "queries_keys_values; or set kv_heads to 6");
  CHECK(refusal([](LlamaConfig& c) { c.moh.routing = routings::kGroups; }) ==
        "moh.routing: expected heads with moh.routed: queries_keys_values, found groups; ");
  CHECK(refusal([](LlamaConfig& c) {
          c.moh.router = routers::kQueryNorm;
          c.moh.straight_through = StraightThrough::kAll;
        }) ==
        "moh.straight_through: expected selected or none with moh.routed: queries_keys_values, found all; a "
        "head that a token did not select has no keys for it");
  CHECK(
      refusal([](LlamaConfig& c) { c.sliding_window = 5; }) ==
      "sliding_window: expected 0 with moh.routed: queries_keys_values, found a window; moh.shared_window is "
      "the one of shared heads");
  CHECK(refusal([](LlamaConfig& c) {
          c.rope_scaling = {.kind = RopeScalingKind::kDynamic, .factor = 2, .original_positions = 8};
        }) ==
        "rope_scaling.kind: expected another kind with moh.positions: head, where lengths differ by head, "
        "found dynamic; ");
  CHECK(refusal([](LlamaConfig& c) { c.moh.shared_window = -1; }) ==
        "moh.shared_window: expected 0 or more, found -1; ");
  CHECK(refusal([](LlamaConfig& c) { c.moh.routed = RoutedRows::kQueries; }) ==
        "moh.positions: expected sequence, as every head has all tokens' keys, found head; set moh.routed: "
        "queries_keys_values");
  CHECK(refusal([](LlamaConfig& c) {
          c.moh.routed = RoutedRows::kQueries;
          c.moh.positions = HeadPositions::kSequence;
          c.moh.shared_window = 4;
        }) ==
        "moh.shared_window: expected 0, as every head has all tokens' keys, found 4; set moh.routed: "
        "queries_keys_values");
  ConfigFaults faults;
  check(routed(routers::kLearned, HeadPositions::kHead).moh, {.layers = 2, .heads = PerLayer(6)}, faults);
  CHECK_THROWS_WITH(faults.throw_first("vit"),
                    "vit: moh.routed: expected queries, found queries_keys_values; only language models have "
                    "routed keys and values");
}
