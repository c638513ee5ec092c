// A text that is decoded in pieces: on a CPU their division changes no bit.

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "models/llm/llama.h"
#include "ops/attention/decode.h"
#include "tests/models/llm/tiny_llama.h"

using namespace moh;

namespace {

constexpr std::int64_t kTokens = 1400;

struct Decoded {
  std::vector<Tensor> hidden;  // of each piece
  Tensor next;                 // logits of one token more
};

Tensor some_tokens(std::int64_t begin, std::int64_t count) {
  Tensor tokens = empty({1, count}, DType::kInt64);
  for (std::int64_t i = 0; i < count; ++i)
    tokens.data<std::int64_t>()[i] = ((begin + i) * (begin + i) + (begin + i) / 5) % 19;
  return tokens;
}

Decoded decoded(const Llama& model, const std::vector<std::int64_t>& pieces) {
  KvCache cache = model.make_cache(1, kTokens + 1);
  Decoded result;
  for (const std::int64_t count : pieces)
    result.hidden.push_back(model.decode_hidden(some_tokens(cache.length(), count), cache));
  REQUIRE(cache.length() == kTokens);
  result.next = model.decode(some_tokens(kTokens, 1), cache);
  return result;
}

/// Pieces of few tokens at the beginning and across token 1024, where keys are in another block; long ones
/// between.
std::vector<std::int64_t> some_small(std::int64_t first, std::int64_t second) {
  constexpr std::int64_t kSmall = 25;
  std::vector<std::int64_t> pieces(kSmall, first);
  pieces.push_back(1000 - kSmall * first);
  pieces.insert(pieces.end(), kSmall, second);
  pieces.push_back(kTokens - 1000 - kSmall * second);
  return pieces;
}

std::vector<LlamaConfig> kinds_of_models() {
  std::vector<LlamaConfig> kinds;
  for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm})
    kinds.push_back(test::tiny_llama(router));
  kinds.push_back(test::tiny_llama());
  kinds.back().sliding_window = PerLayer({9, 200});  // whose caches drop tokens
  kinds.push_back(test::tiny_llama());
  kinds.back().qk_norm = kinds.back().qkv_bias = true;
  for (const AttentionGate gate : {AttentionGate::kHead, AttentionGate::kElement}) {
    kinds.push_back(test::tiny_llama());
    kinds.back().attention_gate = gate;
  }
  kinds.push_back(test::tiny_llama(routers::kNone));
  kinds.back().head_dim = 32;  // in training the selected experts alone are projected, of enough tokens
  kinds.back().switch_head = {4, 2};
  kinds.push_back(test::tiny_llama());
  kinds.back().moh.routing = routings::kGroups;
  kinds.back().moh.num_shared = 0;
  kinds.back().moh.top_k = 1;
  kinds.push_back(test::tiny_llama());
  kinds.back().moh.routing = routings::kWithinGroups;
  kinds.back().moh.num_shared = 0;
  kinds.back().moh.top_k = kinds.back().kv_heads;
  kinds.push_back(test::tiny_llama());
  kinds.back().hidden = 64;
  kinds.back().head_dim = 32;  // in training the selected heads alone are projected, of enough tokens
  kinds.push_back(test::tiny_llama(routers::kNone));
  kinds.back().intermediate = 2100;  // a sum in several depths
  for (LlamaConfig& config : kinds) config.max_positions = kTokens + 1;
  return kinds;
}

}  // namespace

TEST_CASE("models: the division of a text into pieces changes no bit of its tokens") {
  constexpr std::int64_t kFew = kManyDecodeQueries;
  const std::vector<std::vector<std::int64_t>> divisions = {{512, 512, 376},
                                                            {64, 127, 128, 129, 255, 257, 440},
                                                            {kFew, 3, 7, 500, 488, 400 - kFew, kFew},
                                                            some_small(8, kFew),
                                                            some_small(kFew, 8)};
  for (const LlamaConfig& config : kinds_of_models()) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Llama model(config, dtype);
      model.initialise(4);
      const Decoded whole = decoded(model, {kTokens});
      for (const std::vector<std::int64_t>& division : divisions) {
        INFO(dtype_name(dtype) << ", pieces of " << division[0] << ", " << division[1]);
        const Decoded pieces = decoded(model, division);
        std::int64_t begin = 0;
        for (const Tensor& hidden : pieces.hidden) {
          const Tensor expected = whole.hidden[0].slice(begin, begin + hidden.dim(0));
          REQUIRE(std::memcmp(hidden.raw(), expected.raw(), hidden.bytes()) == 0);
          begin += hidden.dim(0);
        }
        REQUIRE(std::memcmp(pieces.next.raw(), whole.next.raw(), whole.next.bytes()) == 0);
      }
    }
  }
}

TEST_CASE("models: keys and values that depend on a text's length are no steady ones") {
  LlamaConfig config = test::tiny_llama();
  CHECK(Llama(config, DType::kFloat32).steady_positions() == config.max_positions);
  config.rope_scaling = {.kind = RopeScalingKind::kDynamic, .factor = 2, .original_positions = 8};
  CHECK(Llama(config, DType::kFloat32).steady_positions() == 8);
}

TEST_CASE("models: pieces of several texts in one pass have the bits of each alone") {
  constexpr std::int64_t kLengths[] = {30, 2, 200, 5, 130, 17};
  for (const LlamaConfig& config : kinds_of_models()) {
    Llama model(config, DType::kFloat32);
    model.initialise(4);
    std::vector<KvCache> alone, together;
    std::vector<KvCache*> caches;
    for (std::size_t b = 0; b < std::size(kLengths); ++b) {
      for (std::vector<KvCache>* each : {&alone, &together}) each->push_back(model.make_cache(1, 400));
      // Texts of other lengths so far.
      const auto before = static_cast<std::int64_t>(3 + 7 * b);
      model.decode_hidden(some_tokens(0, before), alone.back());
      model.decode_hidden(some_tokens(0, before), together.back());
    }
    for (KvCache& cache : together) caches.push_back(&cache);
    Tensor tokens = empty({384}, DType::kInt64);
    std::int64_t row = 0;
    for (std::size_t b = 0; b < std::size(kLengths); ++b) {
      tokens.slice(row, row + kLengths[b]).copy_from(some_tokens(alone[b].length(), kLengths[b]).select(0));
      row += kLengths[b];
    }
    const Tensor hidden = model.decode_pieces(tokens, kLengths, caches);
    row = 0;
    for (std::size_t b = 0; b < std::size(kLengths); ++b) {
      const Tensor expected = model.decode_hidden(some_tokens(alone[b].length(), kLengths[b]), alone[b]);
      INFO("text " << b);
      CHECK(std::memcmp(hidden.slice(row, row + kLengths[b]).raw(), expected.raw(), expected.bytes()) == 0);
      row += kLengths[b];
    }
  }
}
