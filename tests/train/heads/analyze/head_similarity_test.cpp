#include "train/heads/analyze/head_similarity.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/parallel.h"
#include "core/random.h"
#include "ops/attention/attention.h"

using namespace moh;

namespace {

const HeadGroup shared_heads{"shared", {0}}, routed_heads{"routed", {1, 2}}, all_heads{"all", {0, 1, 2}};

Tensor normal(const Shape& shape, std::uint64_t seed) {
  Tensor x = empty(shape, DType::kFloat32);
  fill_normal(x, {seed, 2}, 0.0, 1.0);
  return x;
}

SequenceTrace random_trace(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads,
                           std::int64_t width) {
  return {.q = normal({tokens, heads, width}, 1),
          .k = normal({tokens, kv_heads, width}, 2),
          .heads = normal({tokens, heads, width}, 3),
          .output = normal({11, heads * width}, 4),
          .selected = std::vector<std::uint8_t>(static_cast<std::size_t>(tokens * heads), 1)};
}

/// Makes head `to` compute what head `from` does.
void copy_head(const Tensor& x, std::int64_t from, std::int64_t to) {
  const std::int64_t heads = x.dim(1), width = x.dim(2);
  for (std::int64_t t = 0; t < x.dim(0); ++t) {
    float* row = x.data<float>() + t * heads * width;
    std::copy_n(row + from * width, width, row + to * width);
  }
}

}  // namespace

TEST_CASE("analyze: similarity of attention rows by hand") {
  // Two tokens, three heads of width 1, keys 0 and 1. The second token's query of head h gives scores 0 and
  // q: 0 -> (1/2, 1/2), ln 3 -> (1/4, 3/4), -ln 3 -> (3/4, 1/4).
  const float ln3 = std::log(3.0F);
  SequenceTrace trace{.q = tensor_of<float>({2, 3, 1}, {5, 5, 5, 0, ln3, -ln3}),
                      .k = tensor_of<float>({2, 1, 1}, {0, 1}),
                      .heads = tensor_of<float>({2, 3, 1}, {1, 1, 1, 1, 1, 1}),
                      .output = tensor_of<float>({1, 3}, {1, 1, 1}),
                      .selected = {1, 1, 1, 1, 1, 1}};
  HeadSimilarity similarity(3);
  similarity.add(trace);
  CHECK(similarity.attention().mean(0, 1) == Approx(0.75));
  CHECK(similarity.attention().mean(2, 0) == Approx(0.75));
  CHECK(similarity.attention().mean(1, 2) == Approx(0.5));
  CHECK(similarity.attention().mean(1, 1) == 1);
  CHECK(similarity.attention().mean(shared_heads, routed_heads) == Approx(0.75));
  CHECK(similarity.attention().mean(routed_heads, routed_heads) == Approx(0.5));
  CHECK(similarity.attention().mean(all_heads, all_heads) == Approx(2.0 / 3));
  CHECK(similarity.attention().mean({"shared", {1}}, {"routed", {0, 2}}) == Approx(0.625));
  CHECK(std::isnan(similarity.attention().mean(shared_heads, shared_heads)));  // one head has no other

  // A second sequence in which only heads 0 and 1 are used together, and alike.
  trace.q = tensor_of<float>({2, 3, 1}, {5, 5, 5, ln3, ln3, 0});
  trace.selected = {1, 1, 1, 1, 1, 0};
  similarity.add(trace);
  CHECK(similarity.attention().mean(0, 1) == Approx(0.875));
  CHECK(similarity.attention().mean(1, 2) == Approx(0.5));
}

TEST_CASE("analyze: similarity of attention to the tokens of another sequence by hand") {
  // One token, two heads of width 1, keys 0, 0 and 1. Scores 0, 0 and q: ln 2 -> (1/4, 1/4, 1/2), -ln 2 ->
  // (2/5, 2/5, 1/5).
  const float ln2 = std::log(2.0F);
  SequenceTrace trace{.q = tensor_of<float>({1, 2, 1}, {ln2, -ln2}),
                      .k = tensor_of<float>({3, 1, 1}, {0, 0, 1}),
                      .heads = tensor_of<float>({1, 2, 1}, {1, 1}),
                      .output = tensor_of<float>({1, 2}, {1, 1}),
                      .causal = false,
                      .selected = {1, 1}};
  HeadSimilarity similarity(2);
  similarity.add(trace);
  CHECK(similarity.attention().mean(0, 1) == Approx(0.7));
  trace.k = tensor_of<float>({1, 1, 1}, {1});  // one key, which has all of the probability
  similarity.add(trace);
  CHECK(similarity.attention().mean(0, 1) == Approx(0.7));
}

TEST_CASE("analyze: attention is compared under the mask of documents and within the window") {
  constexpr std::int64_t kTokens = 9, kHeads = 3, kFirst = 4;
  const SequenceTrace whole = random_trace(kTokens, kHeads, 1, 4);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    SequenceTrace trace = whole;
    trace.q = whole.q.slice(begin, end);
    trace.k = whole.k.slice(begin, end);
    trace.heads = whole.heads.slice(begin, end);
    trace.selected.resize(static_cast<std::size_t>((end - begin) * kHeads));
    return trace;
  };
  HeadSimilarity alone(kHeads), together(kHeads), unmasked(kHeads);
  alone.add(part(0, kFirst));
  alone.add(part(kFirst, kTokens));
  unmasked.add(whole);
  SequenceTrace masked = whole;
  masked.document_starts = tensor_of<std::int32_t>({kTokens}, {0, 0, 0, 0, 4, 4, 4, 4, 4});
  together.add(masked);
  CHECK(together.attention().mean(0, 1) == Approx(alone.attention().mean(0, 1)));
  CHECK(together.attention().mean(0, 1) != Approx(unmasked.attention().mean(0, 1)));

  // Within a window of 3, the last token attends as the last of three.
  const auto of_last = [](SequenceTrace trace, std::int64_t window) {
    trace.window = window;
    std::fill(trace.selected.begin(), trace.selected.end() - kHeads, std::uint8_t{0});
    HeadSimilarity similarity(kHeads);
    similarity.add(trace);
    return similarity.attention().mean(0, 1);
  };
  CHECK(of_last(whole, 3) == Approx(of_last(part(kTokens - 3, kTokens), 0)));
  CHECK(of_last(whole, kTokens) == of_last(whole, 0));
  CHECK(std::isnan(of_last(whole, 1)));  // it attends to itself alone
}

TEST_CASE("analyze: cosines of outputs and of contributions by hand") {
  // One token, three heads of width 2; the projection swaps the outputs of head 1.
  const SequenceTrace trace{.q = zeros({1, 3, 2}, DType::kFloat32),
                            .k = zeros({1, 3, 2}, DType::kFloat32),
                            .heads = tensor_of<float>({1, 3, 2}, {2, 0, 0, 3, 1, 1}),
                            .output = tensor_of<float>({2, 6}, {1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, -1}),
                            .selected = {1, 1, 1}};
  HeadSimilarity similarity(3);
  similarity.add(trace);
  CHECK(similarity.outputs().mean(0, 1) == 0);
  CHECK(similarity.outputs().mean(0, 2) == Approx(std::sqrt(0.5)));
  // Contributions: (2, 0), (3, 0), (1, -1).
  CHECK(similarity.contributions().mean(0, 1) == Approx(1));
  CHECK(similarity.contributions().mean(1, 2) == Approx(std::sqrt(0.5)));
  CHECK(similarity.contributions().mean(2, 2) == Approx(1));
  CHECK(std::isnan(similarity.attention().mean(0, 1)));  // the first token sees itself only
}

TEST_CASE("analyze: tokens that lack one of two heads do not count, nor do heads that give zeros") {
  const SequenceTrace trace{.q = zeros({3, 2, 1}, DType::kFloat32),
                            .k = zeros({3, 1, 1}, DType::kFloat32),
                            .heads = tensor_of<float>({3, 2, 1}, {1, -1, 1, 1, 1, 0}),
                            .output = tensor_of<float>({1, 2}, {1, 1}),
                            .selected = {1, 1, 1, 0, 1, 1}};
  HeadSimilarity similarity(2);
  similarity.add(trace);
  CHECK(similarity.outputs().mean(0, 1) == -1);
  CHECK(similarity.contributions().mean(1, 0) == -1);
  CHECK(similarity.attention().mean(0, 1) == Approx(1));  // of the last token alone
}

TEST_CASE("analyze: identical heads are alike, whatever else there is") {
  SequenceTrace trace = random_trace(37, 4, 2, 5);
  for (const Tensor& x : {trace.q, trace.heads}) copy_head(x, 0, 1);  // 0 and 1 read the same keys
  for (std::int64_t row = 0; row < 11; ++row)
    std::copy_n(trace.output.data<float>() + row * 20, 5, trace.output.data<float>() + row * 20 + 5);
  HeadSimilarity similarity(4);
  similarity.add(trace);
  for (const HeadPairs* pairs :
       {&similarity.attention(), &similarity.outputs(), &similarity.contributions()}) {
    CHECK(pairs->mean(0, 1) == Approx(1).epsilon(1e-6));
    CHECK(pairs->mean(3, 3) == Approx(1).epsilon(1e-6));
    CHECK(pairs->mean(0, 2) < 0.9);
    CHECK(pairs->mean(2, 3) == pairs->mean(3, 2));
  }
}

TEST_CASE("analyze: the attention that is compared is the attention of the model") {
  // With the keys' one-hot vectors as values, attention returns its rows.
  constexpr std::int64_t kTokens = 33, kHeads = 4, kWidth = 6;
  const bool causal = GENERATE(true, false);
  SequenceTrace trace = random_trace(kTokens, kHeads, 2, kWidth);
  trace.causal = causal;
  HeadSimilarity similarity(kHeads);
  similarity.add(trace);
  std::vector<double> expected(kHeads * kHeads);
  std::vector<double> rows(kTokens * kHeads * kTokens);
  for (std::int64_t s = 0; s < kTokens; ++s) {
    const Tensor v = zeros({1, kTokens, 2, kWidth}, DType::kFloat32);
    v.select(0).select(s).fill(1);
    const Tensor p =
        attention(Variable(trace.q.reshape({1, kTokens, kHeads, kWidth})),
                  Variable(trace.k.reshape({1, kTokens, 2, kWidth})), Variable(v), {.causal = causal})
            .value();
    for (std::int64_t row = 0; row < kTokens * kHeads; ++row)
      rows[static_cast<std::size_t>(row * kTokens + s)] = p.data<float>()[row * kWidth];
  }
  for (std::int64_t i = 0; i < kHeads; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      double sum = 0;
      for (std::int64_t t = causal ? 1 : 0; t < kTokens; ++t) {
        double distance = 0;
        for (std::int64_t s = 0; s < kTokens; ++s) {
          distance += std::abs(rows[static_cast<std::size_t>((t * kHeads + i) * kTokens + s)] -
                               rows[static_cast<std::size_t>((t * kHeads + j) * kTokens + s)]);
        }
        sum += 1 - distance / 2;
      }
      CHECK(similarity.attention().mean(i, j) ==
            Approx(sum / static_cast<double>(kTokens - (causal ? 1 : 0))).epsilon(1e-5));
    }
  }
}

TEST_CASE("analyze: similarity does not depend on the number of threads") {
  const SequenceTrace trace = random_trace(64, 5, 5, 8);
  const int before = num_threads();
  std::vector<double> found;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    HeadSimilarity similarity(5);
    similarity.add(trace);
    found.push_back(similarity.attention().mean(1, 3) + 2 * similarity.outputs().mean(2, 4) +
                    4 * similarity.contributions().mean(0, 1));
  }
  set_num_threads(before);
  CHECK(found[0] == found[1]);
}
