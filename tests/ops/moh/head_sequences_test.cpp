#include "ops/moh/head_sequences.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/ops/attention/reference.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

struct HeadSequencesSizes {
  std::int64_t batch, tokens, heads, head_dim;
  std::int64_t each;  ///< selected heads of a token

  Shape of_heads() const { return {batch, tokens, heads, head_dim}; }
};

/// No token, one pair, an odd width, whole vectors, all heads, heads without rows, more than a chunk.
constexpr HeadSequencesSizes kHeadSequencesSizes[] = {{1, 0, 4, 3, 2},    {1, 1, 1, 1, 1},  {2, 3, 5, 5, 2},
                                                      {1, 7, 8, 32, 2},   {1, 4, 4, 19, 4}, {1, 9, 12, 8, 1},
                                                      {1, 1100, 6, 16, 3}};

/// `each` neighbours among the heads, others for each token.
Tensor selected_sequences(const HeadSequencesSizes& s) {
  Tensor selected = zeros({s.batch, s.tokens, s.heads}, DType::kUInt8);
  for (std::int64_t token = 0; token < s.batch * s.tokens; ++token) {
    const auto first = static_cast<std::int64_t>(
        random_below({5, 2}, static_cast<std::uint64_t>(token), static_cast<std::uint64_t>(s.heads)));
    for (std::int64_t i = 0; i < s.each; ++i)
      selected.data<std::uint8_t>()[token * s.heads + (first + i) % s.heads] = 1;
  }
  return selected;
}

HeadSequences sequences_on(const HeadSequencesSizes& s, Device device, HeadSequenceOptions options = {}) {
  for (Tensor* of : {&options.document_starts, &options.windows, &options.first_positions}) {
    if (of->defined()) *of = of->to(device);
  }
  const HeadLists lists = build_head_lists(selected_sequences(s).to(device), s.heads, s.each);
  return head_sequences(lists, options);
}

/// The pairs of the selection, sequence by sequence, head by head.
std::vector<std::int64_t> pairs_of(const HeadSequencesSizes& s) {
  const Tensor selected = selected_sequences(s);
  std::vector<std::int64_t> pairs;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t t = 0; t < s.tokens; ++t) {
        const std::int64_t pair = (b * s.tokens + t) * s.heads + h;
        if (selected.data<std::uint8_t>()[pair] != 0) pairs.push_back(pair);
      }
    }
  }
  return pairs;
}

/// Calls body(pair element, row element).
template <class Body>
void for_each_element(const HeadSequencesSizes& s, const Body& body) {
  const std::vector<std::int64_t> pairs = pairs_of(s);
  for (std::size_t r = 0; r < pairs.size(); ++r) {
    for (std::int64_t j = 0; j < s.head_dim; ++j)
      body(pairs[r] * s.head_dim + j, static_cast<std::int64_t>(r) * s.head_dim + j);
  }
}

Tensor rows_like(const HeadSequencesSizes& s, std::int64_t seed) {
  return normal({1, std::ssize(pairs_of(s)), 1, s.head_dim}, static_cast<std::uint64_t>(seed));
}

/// q, k, v or a gradient of head h of sequence b, [1, n, 1, d], from [B, T, H, d].
Tensor of_head(const Tensor& x, const HeadSequencesSizes& s, std::int64_t list) {
  std::vector<float> values;
  for (const std::int64_t pair : pairs_of(s)) {
    if (pair / (s.tokens * s.heads) * s.heads + pair % s.heads != list) continue;
    const float* row = x.data<float>() + pair * s.head_dim;
    values.insert(values.end(), row, row + s.head_dim);
  }
  return tensor_of<float>({1, std::ssize(values) / s.head_dim, 1, s.head_dim}, values);
}

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::ranges::equal(a.span<float>(), b.span<float>());
}

}  // namespace

OP_CASES(gather_pairs) {
  OpCases cases;
  for (const HeadSequencesSizes& s : kHeadSequencesSizes) {
    cases.push_back(
        {.name = to_string(s.of_heads()),
         .inputs = {normal(s.of_heads())},
         .run =
             [s](const Inputs& in) { return Outputs{gather_pairs(in[0], sequences_on(s, in[0].device()))}; },
         .reference =
             [s](const std::vector<Tensor>& in) {
               Tensor y = rows_like(s, 1);
               for_each_element(s, [&](std::int64_t from, std::int64_t to) {
                 y.data<double>()[to] = in[0].data<double>()[from];
               });
               return std::vector{y};
             },
         .gradients =
             [s](const std::vector<Tensor>& in, const std::vector<Tensor>& dy) {
               Tensor dx = zeros(in[0].shape(), DType::kFloat64);
               for_each_element(s, [&](std::int64_t to, std::int64_t from) {
                 dx.data<double>()[to] = dy[0].data<double>()[from];
               });
               return std::vector{dx};
             }});
    if (s.of_heads().numel() < 2000) cases.back().gradients = {};
  }
  return cases;
}

OP_CASES(scatter_pairs) {
  OpCases cases;
  for (const HeadSequencesSizes& s : kHeadSequencesSizes) {
    cases.push_back({.name = to_string(s.of_heads()),
                     .inputs = {rows_like(s, 1), uniform({s.batch, s.tokens, s.heads}, 0.5, 1.5)},
                     .run =
                         [s](const Inputs& in) {
                           return Outputs{scatter_pairs(in[0], in[1], sequences_on(s, in[0].device()))};
                         },
                     .reference =
                         [s](const std::vector<Tensor>& in) {
                           Tensor x = zeros(s.of_heads(), DType::kFloat64);
                           for_each_element(s, [&](std::int64_t to, std::int64_t from) {
                             x.data<double>()[to] =
                                 in[1].data<double>()[to / s.head_dim] * in[0].data<double>()[from];
                           });
                           return std::vector{x};
                         },
                     .gradients =
                         [s](const std::vector<Tensor>& in, const std::vector<Tensor>& dx) {
                           Tensor dy = empty_like(in[0]), d_gates = zeros(in[1].shape(), DType::kFloat64);
                           for_each_element(s, [&](std::int64_t pair, std::int64_t row) {
                             const double gradient = dx[0].data<double>()[pair];
                             dy.data<double>()[row] = in[1].data<double>()[pair / s.head_dim] * gradient;
                             d_gates.data<double>()[pair / s.head_dim] +=
                                 gradient * in[0].data<double>()[row];
                           });
                           return std::vector{dy, d_gates};
                         }});
    if (s.of_heads().numel() < 2000) cases.back().gradients = {};
  }
  return cases;
}

TEST_CASE("ops: the sequences of heads have rows, positions and first visible rows of the definition") {
  const HeadSequencesSizes s{2, 40, 3, 1, 2};
  const AttentionSizes sizes{s.batch, s.tokens, s.tokens, s.heads, s.heads, 1};
  const Tensor documents = random_documents(sizes, 0, 0.1);
  const Tensor windows = tensor_of<std::int32_t>({3}, {0, 4, 1});
  const Tensor before = tensor_of<std::int32_t>({6}, {0, 5, 7, 9, 2, 0});
  const std::vector<std::int64_t> pairs = pairs_of(s);
  for (const bool in_head : {false, true}) {
    for (const bool reset : {false, true}) {
      const HeadSequences found = sequences_on(s, kCpu, {documents, reset, in_head, windows, before});
      REQUIRE(found.num_rows() == std::ssize(pairs));
      CHECK(std::ranges::equal(found.pairs.span<std::int64_t>(), pairs));
      for (std::int64_t r = 0; r < std::ssize(pairs); ++r) {
        const auto token_of = [&](std::int64_t row) { return pairs[static_cast<std::size_t>(row)] / 3 % 40; };
        const std::int64_t batch = pairs[static_cast<std::size_t>(r)] / 120,
                           head = pairs[static_cast<std::size_t>(r)] % 3, list = batch * 3 + head;
        const std::int64_t start = documents.data<std::int32_t>()[batch * 40 + token_of(r)];
        const std::int64_t begin = found.offsets.data<std::int64_t>()[list];
        std::int64_t first = begin;  // of the document
        while (token_of(first) < start) ++first;
        std::int64_t position = in_head ? r - begin : token_of(r);
        if (reset) position -= in_head ? first - begin : start;
        CHECK(found.positions.data<std::int32_t>()[r] == position + before.data<std::int32_t>()[list]);
        const std::int64_t window = windows.data<std::int32_t>()[head];
        CHECK(found.starts.data<std::int32_t>()[r] == (window > 0 ? std::max(first, r - window + 1) : first));
      }
    }
  }
}

TEST_CASE("ops: attention of packed sequences has the bits of dense attention of each head's tokens") {
  // Longer than two tasks, with tails, and short ones.
  for (const HeadSequencesSizes& s :
       {HeadSequencesSizes{2, 700, 3, 16, 2}, HeadSequencesSizes{1, 300, 9, 72, 1}}) {
    std::vector<Tensor> in;
    for (std::uint64_t i = 0; i < 4; ++i) in.push_back(normal(s.of_heads(), 10 + i).to(DType::kFloat32));
    const HeadSequences sequences = sequences_on(s, kCpu);
    const auto threads = num_threads();
    for (const std::int64_t count : {1, 2, 5}) {
      set_num_threads(count);
      const Variable q(in[0], true), k(in[1], true), v(in[2], true);
      const Variable out =
          attention(gather_pairs(q, sequences), gather_pairs(k, sequences), gather_pairs(v, sequences),
                    {.document_starts = sequences.starts, .sequences = {sequences.offsets}});
      const Variable ones(full({s.batch, s.tokens, s.heads}, 1.0, DType::kFloat32));
      const Variable y = scatter_pairs(out, ones, sequences);
      y.backward(in[3]);
      for (std::int64_t list = 0; list < s.batch * s.heads; ++list) {
        CAPTURE(count, list);
        const Variable one_q(of_head(in[0], s, list), true), one_k(of_head(in[1], s, list), true),
            one_v(of_head(in[2], s, list), true);
        if (one_q.dim(1) == 0) continue;
        const Variable alone = attention(one_q, one_k, one_v, {});
        alone.backward(of_head(in[3], s, list));
        CHECK(same(of_head(y.value(), s, list), alone.value()));
        CHECK(same(of_head(q.grad(), s, list), one_q.grad()));
        CHECK(same(of_head(k.grad(), s, list), one_k.grad()));
        CHECK(same(of_head(v.grad(), s, list), one_v.grad()));
      }
    }
    set_num_threads(threads);
  }
}

OP_CASES(attention_of_sequences) {
  const HeadSequencesSizes s{2, 9, 3, 6, 2};
  const AttentionSizes sizes{s.batch, s.tokens, s.tokens, s.heads, s.heads, s.head_dim};
  const Tensor documents = random_documents(sizes, 0, 0.2), windows = tensor_of<std::int32_t>({3}, {0, 2, 0});
  // A row of the mask of the definition: keys of its head, of its document, in the window.
  const auto reference = [s, documents, windows](const std::vector<Tensor>& in) {
    const Tensor selected = selected_sequences(s);
    Tensor y = zeros(s.of_heads(), DType::kFloat64);
    for (const std::int64_t pair : pairs_of(s)) {
      const std::int64_t head = pair % s.heads, token = pair / s.heads, position = token % s.tokens;
      std::vector<std::int64_t> keys;
      for (std::int64_t key = position; key >= documents.data<std::int32_t>()[token]; --key) {
        const std::int64_t other = pair - (position - key) * s.heads;
        const std::int64_t window = windows.data<std::int32_t>()[head];
        if (selected.data<std::uint8_t>()[other] != 0 && (window == 0 || std::ssize(keys) < window))
          keys.push_back(other);
      }
      std::vector<double> weights;
      double sum = 0;
      for (const std::int64_t key : keys) {
        double score = 0;
        for (std::int64_t j = 0; j < s.head_dim; ++j)
          score += in[0].data<double>()[pair * s.head_dim + j] * in[1].data<double>()[key * s.head_dim + j];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(s.head_dim))));
        sum += weights.back();
      }
      for (std::size_t i = 0; i < keys.size(); ++i) {
        for (std::int64_t j = 0; j < s.head_dim; ++j)
          y.data<double>()[pair * s.head_dim + j] +=
              in[3].data<double>()[pair] * weights[i] / sum * in[2].data<double>()[keys[i] * s.head_dim + j];
      }
    }
    return std::vector{y};
  };
  return {{.name = "documents, and a head with a window",
           .inputs = {normal(s.of_heads(), 1), normal(s.of_heads(), 2), normal(s.of_heads(), 3),
                      uniform({s.batch, s.tokens, s.heads}, 0.5, 1.5)},
           .run =
               [=](const Inputs& in) {
                 const HeadSequences of =
                     sequences_on(s, in[0].device(), {.document_starts = documents, .windows = windows});
                 const Variable out =
                     attention(gather_pairs(in[0], of), gather_pairs(in[1], of), gather_pairs(in[2], of),
                               {.document_starts = of.starts, .sequences = {of.offsets}});
                 return Outputs{scatter_pairs(out, in[3], of)};
               },
           .reference = reference,
           .units = 64}};
}

TEST_CASE("ops: sequences that do not fit are refused") {
  const HeadSequencesSizes s{2, 3, 4, 5, 2};
  const HeadSequences of = sequences_on(s, kCpu);
  const Variable x(normal(s.of_heads())), rows(rows_like(s, 1)), gates(normal({2, 3, 4}));
  CHECK_THROWS_WITH(head_sequences(build_head_lists(selected_sequences(s), 2)),
                    "head_sequences: lists: expected one for each head, found 2 for 4 heads");
  CHECK_THROWS_WITH(sequences_on(s, kCpu, {.windows = zeros({3}, DType::kInt32)}),
                    "head_sequences: windows: expected shape [4], found [3]");
  CHECK_THROWS_AS(gather_pairs(Variable(normal({2, 3, 5, 5})), of), ShapeError);
  CHECK_THROWS_AS(scatter_pairs(x, gates, of), ShapeError);
  CHECK_THROWS_AS(scatter_pairs(rows, Variable(normal({2, 3, 3})), of), ShapeError);
  AttentionOptions options{.document_starts = of.starts, .sequences = {of.offsets}};
  CHECK_NOTHROW(attention(rows, rows, rows, options));
  options.dropout = 0.5;
  CHECK_THROWS_WITH(attention(rows, rows, rows, options),
                    "attention: sequences: expected no dropout, found 0.500000");
  options.dropout = 0.0;
  options.sequences.offsets = of.offsets.slice(0, 3);
  CHECK_THROWS_WITH(attention(rows, rows, rows, options),
                    Catch::Contains("attention: sequences: expected offsets"));
  options = {.sequences = {of.offsets}};
  CHECK_THROWS_WITH(attention(rows, rows, rows, options),
                    Catch::Contains("attention: sequences: expected document_starts in place of a window"));
  options.document_starts = zeros(of.starts.shape(), DType::kInt32);  // of the first sequence
  CHECK_THROWS_WITH(attention(rows, rows, rows, options), Catch::Contains("document_starts not before them"));
}
