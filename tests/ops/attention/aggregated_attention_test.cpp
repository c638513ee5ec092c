#include "ops/attention/aggregated_attention.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "core/allocator.h"
#include "core/error.h"
#include "tests/ops/attention/aggregated_problem.h"

using namespace moh;
using namespace moh::test;
using namespace moh::test::aggregated;

namespace {

using Row = std::vector<double>;

Row row_at(const Tensor& x, std::int64_t index) {
  const std::int64_t d = x.dim(-1);
  return {x.data<double>() + index * d, x.data<double>() + (index + 1) * d};
}
Row unit(Row x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::max(std::sqrt(squares), 1e-12);
  return x;
}
double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// One (token, head) by the definition: keys, values and biases that it sees, of neighbours first.
struct Seen {
  std::vector<Row> k, v;
  Row bias, learned;
};

/// Percent of the logits, rounded up, that stay: the largest.
void keep_largest(Row& logits, std::int64_t percent) {
  Row sorted = logits;
  std::ranges::sort(sorted, std::greater());
  const std::size_t kept = (sorted.size() * static_cast<std::size_t>(percent) + 99) / 100;
  for (double& logit : logits) {
    if (logit < sorted[kept - 1]) logit = -std::numeric_limits<double>::infinity();
  }
}

Row head_output(const Row& q, const Row& embedding, double temperature, const Seen& seen,
                std::int64_t kept_percent) {
  const double scale = std::log1p(std::exp(temperature)) * std::log(static_cast<double>(seen.k.size()));
  const Row own = unit(q);
  Row query = own;
  for (std::size_t i = 0; i < query.size(); ++i) query[i] = (own[i] + embedding[i]) * scale;
  Row weights;
  double sum = 0;
  for (std::size_t j = 0; j < seen.k.size(); ++j)
    weights.push_back(dot(query, unit(seen.k[j])) + seen.bias[j]);
  keep_largest(weights, kept_percent);
  for (double& weight : weights) sum += weight = std::exp(weight);
  Row out(q.size());
  for (std::size_t j = 0; j < seen.k.size(); ++j) {
    const double weight = weights[j] / sum + (j < seen.learned.size() ? seen.learned[j] : 0.0);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * seen.v[j][i];
  }
  return out;
}

/// Adds the neighbours of token t of sequence b, those inside the image.
void see_neighbours(Seen& seen, const Sizes& s, const std::vector<Tensor>& in, std::int64_t b, std::int64_t t,
                    std::int64_t h) {
  const Row own = unit(row_at(in[0], (b * s.tokens() + t) * s.heads + h));
  for (std::int64_t j = 0; j < s.neighbours(); ++j) {
    const std::int64_t y = t / s.width + j / s.window - s.window / 2,
                       x = t % s.width + j % s.window - s.window / 2;
    if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
    const std::int64_t at = (b * s.tokens() + y * s.width + x) * 2 * s.heads + h;
    seen.k.push_back(row_at(in[1], at));
    seen.v.push_back(row_at(in[1], at + s.heads));
    seen.bias.push_back(in[6].data<double>()[h * s.neighbours() + j]);
    double learned = in[8].data<double>()[h * s.neighbours() + j];
    for (std::int64_t c = 0; c < s.d; ++c)
      learned += own[static_cast<std::size_t>(c)] * in[7].data<double>()[(h * s.d + c) * s.neighbours() + j];
    seen.learned.push_back(learned);
  }
}

/// keys(b, m, h) and values(b, m, h) are those of distant key m.
template <class Keys, class Values>
Tensor aggregated_attention_reference(const Sizes& s, const std::vector<Tensor>& in, const Tensor& gates,
                                      const Tensor& selected, const Keys& keys, const Values& values,
                                      const Tensor& q, const std::vector<Tensor>& cosine,
                                      std::int64_t kept_percent = 100) {
  Tensor out = zeros({s.batch, s.tokens(), s.heads, s.d}, DType::kFloat64);
  for (std::int64_t pair = 0; pair < s.batch * s.tokens() * s.heads; ++pair) {
    if (selected.defined() && selected.data<std::uint8_t>()[pair] == 0) continue;
    const std::int64_t h = pair % s.heads, t = pair / s.heads % s.tokens(), b = pair / s.heads / s.tokens();
    Seen seen;
    if (s.window > 0) see_neighbours(seen, s, in, b, t, h);
    for (std::int64_t m = 0; m < s.keys; ++m) {
      seen.k.push_back(keys(b, m, h));
      seen.v.push_back(values(b, m, h));
      seen.bias.push_back(cosine[2].data<double>()[(h * s.tokens() + t) * s.keys + m]);
    }
    const std::int64_t q_row = b * s.tokens() + t;
    const Row head = head_output(row_at(q, q_row * q.dim(2) + h), row_at(cosine[0], h),
                                 cosine[1].data<double>()[h], seen, kept_percent);
    for (std::int64_t c = 0; c < s.d; ++c)
      out.data<double>()[pair * s.d + c] =
          head[static_cast<std::size_t>(c)] * (gates.defined() ? gates.data<double>()[pair] : 1.0);
  }
  return out;
}

Tensor aggregated_reference(const Sizes& s, const std::vector<Tensor>& in, const Tensor& selected,
                            std::int64_t kept_percent = 100) {
  const auto row = [&](std::int64_t b, std::int64_t m, std::int64_t head) {
    return row_at(in[2], (b * s.keys + m) * 2 * s.heads + head);
  };
  return aggregated_attention_reference(
      s, in, selected.defined() ? in[9] : Tensor(), selected, row,
      [&](std::int64_t b, std::int64_t m, std::int64_t h) { return row(b, m, h + s.heads); }, in[0],
      {in[3], in[4], in[5]}, kept_percent);
}

const std::vector<Sizes> small_sizes = {
    {1, 1, 1, 1, 1, 1, 1}, {2, 2, 3, 2, 5, 2, 3}, {1, 4, 3, 1, 8, 9, 3},   {1, 3, 4, 2, 3, 2, 5},
    {3, 1, 4, 2, 4, 1, 3}, {0, 2, 2, 1, 4, 1, 3}, {1, 3, 5, 1, 24, 17, 3},
};

}  // namespace

OP_CASES(aggregated_attention) {
  OpCases cases;
  for (const Sizes& s : small_sizes) {
    for (const double share : {-1.0, 0.0, 0.5, 1.0}) {
      const Problem p = problem_of(s, share);
      cases.push_back({.name = name_of(s) + " share " + std::to_string(share),
                       .inputs = p.inputs,
                       .run = [=](const Inputs& x) { return Outputs{run_aggregated(s, x, p.selected)}; },
                       .reference =
                           [=](const std::vector<Tensor>& in) {
                             return std::vector<Tensor>{aggregated_reference(s, in, p.selected)};
                           },
                       .units = 64});
    }
  }
  return cases;
}

OP_CASES(sparse_aggregated_attention) {
  OpCases cases;
  for (const Sizes& s :
       {Sizes{1, 1, 1, 1, 1, 1, 1}, {2, 2, 3, 2, 5, 2, 3}, {1, 4, 3, 1, 8, 30, 3}, {2, 3, 4, 2, 3, 20, 5}}) {
    for (const std::int64_t percent : {1, 50, 75}) {
      const Problem p = problem_of(s, percent == 50 ? 0.5 : -1);
      cases.push_back(
          {.name = name_of(s) + " kept " + std::to_string(percent),
           .inputs = p.inputs,
           .run = [=](const Inputs& x) { return Outputs{run_aggregated(s, x, p.selected, percent)}; },
           .reference =
               [=](const std::vector<Tensor>& in) {
                 return std::vector<Tensor>{aggregated_reference(s, in, p.selected, percent)};
               },
           .units = 64,
           .low_precision = false});  // other keys may be the largest
    }
  }
  return cases;
}

TEST_CASE("ops: sparse attention is dense attention without the biases of the dropped keys") {
  constexpr std::int64_t kTokens = 20, kHeads = 2, kDim = 5;
  const Tensor qkv = normal({2, kTokens, 3 * kHeads, kDim}, 1);
  const Variable e(normal({kHeads, 1, kDim}, 2)), t(normal({kHeads, 1, 1}, 3));
  const Tensor bias = normal({kHeads, kTokens, kTokens}, 4), masked = bias.clone();
  // Biases so far apart that they alone decide.
  for (std::int64_t i = 0; i < bias.numel(); ++i) {
    const std::int64_t rank = i * 7 % kTokens;
    bias.data<double>()[i] = rank < 15 ? 0.01 * static_cast<double>(rank) : -40 - static_cast<double>(rank);
    masked.data<double>()[i] = rank < 15 ? bias.data<double>()[i] : -1e9;
  }
  const auto run = [&](const Tensor& with, std::int64_t percent) {
    SelectedPairs pairs;
    pairs.kept_percent = percent;
    const Variable leaf(qkv, true);
    const Variable y = cosine_attention_packed(leaf, {e, t, Variable(with)}, pairs);
    y.backward(normal(y.shape(), 5));
    return std::vector<Tensor>{y.value(), leaf.grad()};
  };
  const std::vector<Tensor> sparse = run(bias, 75), dense = run(masked, 100);
  for (std::size_t k = 0; k < 2; ++k) {
    for (std::int64_t i = 0; i < sparse[k].numel(); ++i)
      CHECK(sparse[k].data<double>()[i] == Approx(dense[k].data<double>()[i]).margin(1e-13));
  }
  CHECK_THROWS_AS(run(bias, 0), ValueError);
  CHECK_THROWS_AS(run(bias, 101), ValueError);
}

OP_CASES(cosine_attention_packed) {
  OpCases cases;
  for (const Sizes& s : {Sizes{1, 1, 1, 1, 1, 1, 0}, {2, 2, 3, 2, 5, 6, 0}, {1, 4, 5, 3, 4, 20, 0}}) {
    for (const double share : {-1.0, 0.5}) {
      const Problem p = problem_of(s, share);
      cases.push_back(
          {.name = name_of(s) + " share " + std::to_string(share),
           .inputs = packed_inputs(s, p),
           .run = [=](const Inputs& x) { return Outputs{run_packed(x, p.selected)}; },
           .reference =
               [=](const std::vector<Tensor>& in) {
                 const auto row = [&](std::int64_t b, std::int64_t m, std::int64_t head) {
                   return row_at(in[0], (b * s.keys + m) * 3 * s.heads + head);
                 };
                 return std::vector<Tensor>{aggregated_attention_reference(
                     s, {}, in.size() > 4 ? in[4] : Tensor(), p.selected,
                     [&](std::int64_t b, std::int64_t m, std::int64_t h) { return row(b, m, h + s.heads); },
                     [&](std::int64_t b, std::int64_t m, std::int64_t h) {
                       return row(b, m, h + 2 * s.heads);
                     },
                     in[0], {in[1], in[2], in[3]})};
               },
           .units = 64});
    }
  }
  return cases;
}

namespace {

/// Output and gradients in float32, for cotangents of ones.
std::vector<Tensor> run_in_float(const Sizes& s, const Problem& p) {
  Inputs leaves;
  for (const Tensor& input : p.inputs) leaves.emplace_back(input.to(DType::kFloat32).clone(), true);
  const Variable y = run_aggregated(s, leaves, p.selected);
  y.backward(normal(y.shape(), 20).to(DType::kFloat32));
  std::vector<Tensor> results = {y.value()};
  for (const Variable& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

/// The sum of the products of the elements of two tensors.
double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

}  // namespace

TEST_CASE("ops: aggregated attention over several bands, blocks and chunks equals the definition") {
  // 20 rows of 40 tokens: two bands of packed keys; rows of logits of more than one block; the heads of the
  // paper are as wide.
  for (const Sizes& s :
       {Sizes{2, 20, 40, 2, 24, 49, 3}, {3, 9, 7, 1, 24, 150, 3}, {1, 6, 130, 1, 12, 4, 5}}) {
    const Problem p = problem_of(s, 0.5);
    const Tensor expected = aggregated_reference(s, p.inputs, p.selected), found = run_in_float(s, p)[0];
    double worst = 0;
    for (std::int64_t i = 0; i < expected.numel(); ++i)
      worst = std::max(worst, std::abs(expected.data<double>()[i] - double{found.data<float>()[i]}));
    INFO(name_of(s));
    CHECK(worst < 2e-5);
  }
}

TEST_CASE("ops: aggregated attention over many tokens has the gradients of its slopes") {
  // 800 tokens: the window of packed keys slides. Few pairs: its tokens are further apart than a block may
  // span.
  const Sizes s{2, 20, 40, 2, 24, 5, 3};
  for (const double share : {1.0, 0.5, 0.01}) {
    const Problem p = problem_of(s, share);
    Inputs leaves;
    for (const Tensor& input : p.inputs) leaves.emplace_back(input.clone(), true);
    const Variable y = run_aggregated(s, leaves, p.selected);
    const Tensor dout = normal(y.shape(), 20);
    y.backward(dout);
    for (std::size_t i = 0; i < p.inputs.size(); ++i) {
      const Tensor direction = normal(p.inputs[i].shape(), 30 + i);
      constexpr double kStep = 1e-5;
      double slope = 0;
      for (const double step : {kStep, -kStep}) {
        Inputs moved(p.inputs.begin(), p.inputs.end());
        moved[i] = Variable(p.inputs[i].clone());
        for (std::int64_t j = 0; j < direction.numel(); ++j)
          moved[i].value().data<double>()[j] += step * direction.data<double>()[j];
        slope += dot(run_aggregated(s, moved, p.selected).value(), dout) / (2 * step);
      }
      INFO("share " << share << ", input " << i);
      const double gradient = dot(leaves[i].grad(), direction);
      CHECK(std::abs(gradient - slope) < 1e-6 * (1 + std::abs(slope)));
    }
  }
}

TEST_CASE("ops: aggregated attention: all pairs with gate 1 and dense attention have the same bits") {
  const Sizes s{2, 20, 40, 3, 24, 49, 3};
  Problem listed = problem_of(s, 1.0);
  listed.inputs[9].fill(1.0);
  const std::vector<Tensor> dense = run_in_float(s, problem_of(s, -1)), sparse = run_in_float(s, listed);
  for (std::size_t i = 0; i < dense.size(); ++i)
    CHECK(std::memcmp(dense[i].raw(), sparse[i].raw(), dense[i].bytes()) == 0);
}

TEST_CASE("ops: aggregated attention: a selected pair does not depend on what else is selected") {
  const Sizes s{1, 20, 40, 2, 24, 49, 3};
  const Problem half = problem_of(s, 0.5), whole = problem_of(s, 1.0);
  const Tensor some = run_in_float(s, half)[0], all = run_in_float(s, whole)[0];
  for (std::int64_t pair = 0; pair < half.selected.numel(); ++pair) {
    const bool selected = half.selected.data<std::uint8_t>()[pair] != 0;
    for (std::int64_t c = 0; c < s.d; ++c) {
      const float found = some.data<float>()[pair * s.d + c];
      if (found != (selected ? all.data<float>()[pair * s.d + c] : 0.0F)) FAIL("pair " << pair);
    }
  }
}

TEST_CASE("ops: aggregated attention: unselected queries and their gates count for nothing") {
  const Sizes s{1, 5, 6, 2, 24, 4, 3};
  Problem clean = problem_of(s, 0.4), poisoned = problem_of(s, 0.4);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t pair = 0; pair < clean.selected.numel(); ++pair) {
    if (clean.selected.data<std::uint8_t>()[pair] != 0) continue;
    poisoned.inputs[9].data<double>()[pair] = nan;
    std::fill_n(poisoned.inputs[0].data<double>() + pair * s.d, s.d, nan);
  }
  const std::vector<Tensor> expected = run_in_float(s, clean), found = run_in_float(s, poisoned);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::memcmp(expected[i].raw(), found[i].raw(), expected[i].bytes()) == 0);
}

TEST_CASE("ops: aggregated attention at the ends of the temperature's range") {
  const Sizes s{1, 3, 3, 2, 4, 2, 3};
  for (const double temperature : {-200.0, -30.0, 30.0, 100.0}) {
    Problem p = problem_of(s, -1);
    p.inputs[4].fill(temperature);
    for (const Tensor& result : run_in_float(s, p)) CHECK(result.all_finite());
  }
}

TEST_CASE("ops: aggregated attention refuses what does not fit") {
  const Sizes s{2, 2, 3, 2, 5, 2, 3};
  const Problem p = problem_of(s, -1);
  Inputs x;
  for (const Tensor& input : p.inputs) x.emplace_back(input);
  const auto with = [&](std::size_t index, const Tensor& other) {
    Inputs changed = x;
    changed[index] = Variable(other);
    return run_aggregated(s, changed, {});
  };
  CHECK_THROWS_WITH(
      with(1, normal({2, 6, 2, 5})),
      "aggregated_attention: local: expected shape [2, 6, 4, 5] (keys and values of q's heads), "
      "found [2, 6, 2, 5]");
  CHECK_THROWS_WITH(with(5, normal({2, 6, 3})),
                    "aggregated_attention: position_bias: expected shape [2, 6, 2], found [2, 6, 3]");
  CHECK_THROWS_AS(with(7, normal({2, 5, 25})), ShapeError);
  CHECK_THROWS_AS(with(2, p.inputs[2].to(DType::kFloat32)), DTypeError);
  CHECK_THROWS_WITH(run_aggregated({2, 3, 3, 2, 5, 2, 3}, x, {}),
                    "aggregated_attention: grid: expected the 6 tokens of q, found 3 x 3");
  CHECK_THROWS_AS(run_aggregated({2, 2, 3, 2, 5, 2, 4}, x, {}), ShapeError);
  CHECK_THROWS_AS(cosine_attention_packed(Variable(normal({1, 2, 4, 3})), {}), ShapeError);
}
