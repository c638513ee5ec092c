#include "models/vision/transnext_patterns.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/random.h"
#include "models/layers/attention_observer.h"
#include "models/vision/transnext.h"

using namespace moh;

namespace {

constexpr std::int64_t kImages = 2, kHeads = 3, kHeight = 3, kWidth = 4, kTokens = kHeight * kWidth,
                       kWindow = 3, kNeighbours = kWindow * kWindow, kPooled = 4, kDim = kTokens + kPooled;

Tensor random(const Shape& shape, std::uint64_t stream) {
  Tensor x = empty(shape, DType::kFloat32);
  fill_normal(x, {5, stream}, 0, 1);
  return x;
}

/// Keys of [B, T, heads, d] from head `first_key` on, and then values: of token t the unit vector number
/// `first` + t, so that what attention returns is its weights.
Tensor with_unit_values(const Tensor& keys, std::int64_t first_value, std::int64_t first) {
  Tensor both = keys.clone();
  const std::int64_t tokens = both.dim(1), heads = both.dim(2), d = both.dim(3);
  for (std::int64_t i = 0; i < both.dim(0) * tokens * heads; ++i) {
    if (i % heads < first_value) continue;
    for (std::int64_t j = 0; j < d; ++j)
      both.data<float>()[i * d + j] = j == first + i / heads % tokens ? 1.0F : 0.0F;
  }
  return both;
}

CosineParameters cosine(std::int64_t keys) {
  return {Variable(random({kHeads, 1, kDim}, 1)), Variable(random({kHeads, 1, 1}, 2)),
          Variable(random({kHeads, kTokens, keys}, 3))};
}

/// The number of a token's neighbour; -1 outside of the image.
std::int64_t neighbour_of(std::int64_t token, std::int64_t j) {
  const std::int64_t y = token / kWidth + j / kWindow - 1, x = token % kWidth + j % kWindow - 1;
  return y >= 0 && y < kHeight && x >= 0 && x < kWidth ? y * kWidth + x : -1;
}

}  // namespace

TEST_CASE("transnext: the patterns of aggregated attention are its weights") {
  for (const std::int64_t percent : {100, 60}) {
    const CosineParameters parameters = cosine(kPooled);
    const Tensor q = random({kImages, kTokens, kHeads, kDim}, 4),
                 window_bias = random({kHeads, kNeighbours}, 7);
    const Tensor local = with_unit_values(random({kImages, kTokens, 2 * kHeads, kDim}, 5), kHeads, 0);
    const Tensor pooled = with_unit_values(random({kImages, kPooled, 2 * kHeads, kDim}, 6), kHeads, kTokens);
    const TokenGrid grid{kHeight, kWidth, kWindow};
    SelectedPairs selected;
    selected.kept_percent = percent;
    const Tensor zeros_of_tokens = zeros({kHeads, kDim, kNeighbours}, DType::kFloat32);
    const Tensor weights = aggregated_attention(Variable(q), Variable(local), Variable(pooled), parameters,
                                                {Variable(window_bias), Variable(zeros_of_tokens),
                                                 Variable(zeros({kHeads, 1, kNeighbours}, DType::kFloat32))},
                                                grid, selected)
                               .value();
    const AttentionPatterns patterns{.q = q,
                                     .local = local,
                                     .pooled = pooled,
                                     .query_embedding = parameters.query_embedding.value(),
                                     .temperature = parameters.temperature.value(),
                                     .position_bias = parameters.position_bias.value(),
                                     .window_bias = window_bias,
                                     .grid = grid,
                                     .kept_percent = percent};
    for (std::int64_t image = 0; image < kImages; ++image) {
      const Tensor p = patterns.of_image(image);
      REQUIRE(p.shape() == Shape{kTokens, kHeads, kNeighbours + kPooled});
      for (std::int64_t row = 0; row < kTokens * kHeads; ++row) {
        const float* found = p.data<float>() + row * (kNeighbours + kPooled);
        const float* expected = weights.data<float>() + (image * kTokens * kHeads + row) * kDim;
        for (std::int64_t j = 0; j < kNeighbours + kPooled; ++j) {
          const std::int64_t token =
              j < kNeighbours ? neighbour_of(row / kHeads, j) : kTokens + j - kNeighbours;
          REQUIRE(found[j] == Approx(token < 0 ? 0 : expected[token]).margin(2e-6));
        }
      }
    }
  }
}

TEST_CASE("transnext: the patterns of full attention are its weights") {
  const CosineParameters parameters = cosine(kTokens);
  const Tensor qkv = with_unit_values(random({kImages, kTokens, 3 * kHeads, kDim}, 8), 2 * kHeads, 0);
  const Tensor weights = cosine_attention_packed(Variable(qkv), parameters).value();
  const AttentionPatterns patterns{.q = qkv,
                                   .pooled = qkv,
                                   .first_key = kHeads,
                                   .query_embedding = parameters.query_embedding.value(),
                                   .temperature = parameters.temperature.value(),
                                   .position_bias = parameters.position_bias.value(),
                                   .grid = {kHeight, kWidth, 0}};
  const Tensor p = patterns.of_image(1);
  REQUIRE(p.shape() == Shape{kTokens, kHeads, kTokens});
  for (std::int64_t row = 0; row < kTokens * kHeads; ++row) {
    for (std::int64_t key = 0; key < kTokens; ++key)
      REQUIRE(p.data<float>()[row * kTokens + key] ==
              Approx(weights.data<float>()[(kTokens * kHeads + row) * kDim + key]).margin(2e-6));
  }
}

TEST_CASE("transnext: every layer shows its patterns to an observer, also with one key for all heads") {
  class Sums : public AttentionObserver {
   public:
    void observe(const AttentionTrace& trace) override {
      REQUIRE(trace.patterns);
      const Tensor p = trace.patterns(1);
      REQUIRE(p.dim(0) == trace.x.dim(1));
      REQUIRE(p.dim(1) == trace.heads.dim(2));
      for (std::int64_t row = 0; row < p.dim(0) * p.dim(1); ++row) {
        double sum = 0;
        for (std::int64_t j = 0; j < p.dim(2); ++j) sum += double{p.data<float>()[row * p.dim(2) + j]};
        CHECK(sum == Approx(1));
      }
      ++layers;
    }
    std::int64_t layers = 0;
  };
  for (const bool single : {false, true}) {
    TransNextConfig config{.classes = 5,
                           .dims = {8, 16, 24},
                           .heads = {2, 2, 3},
                           .depths = {1, 2, 1},
                           .mlp_ratios = {4, 4, 2},
                           .pool_ratios = {4, 2, 1},
                           .pretrain_size = 32};
    config.single_kv_head = single;
    TransNext model(config, Placement(DType::kFloat32));
    model.initialise(3);
    Sums sums;
    model.forward(Variable(random({2, 32, 32, 3}, 9)), {.observer = &sums});
    CHECK(sums.layers == 4);
  }
}
