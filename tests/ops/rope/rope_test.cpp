#include "ops/rope/rope.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "ops/elementwise/scale.h"
#include "tests/ops/op_cases.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kRopeTheta = 10000.0;
constexpr RopeScaling kLlama31{.kind = RopeScalingKind::kLlama3, .factor = 8};

/// With the frequencies of the plain embedding divided by `factor`.
std::vector<Tensor> rope_reference(const Tensor& x, std::int64_t first_position, double factor = 1) {
  const std::int64_t positions = x.dim(1), heads = x.dim(2), width = x.dim(3), half = width / 2;
  Tensor y = empty_like(x);
  for (std::int64_t row = 0; row < x.dim(0) * positions * heads; ++row) {
    const auto position = static_cast<double>(first_position + row / heads % positions);
    const double* from = x.data<double>() + row * width;
    double* to = y.data<double>() + row * width;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = position / factor *
                           std::pow(kRopeTheta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      to[i] = from[i] * std::cos(angle) - from[i + half] * std::sin(angle);
      to[i + half] = from[i + half] * std::cos(angle) + from[i] * std::sin(angle);
    }
  }
  return {y};
}

}  // namespace

OP_CASES(rope) {
  OpCases cases;
  for (const Shape& shape : {Shape{1, 1, 1, 2}, Shape{0, 3, 2, 4}, Shape{2, 0, 2, 4}, Shape{2, 3, 1, 6},
                             Shape{1, 5, 3, 34}, Shape{2, 2, 2, 64}}) {
    for (const std::int64_t first : {0, 9}) {
      cases.push_back(
          {.name = to_string(shape) + " from " + std::to_string(first),
           .inputs = {normal(shape)},
           .run =
               [=](const Inputs& in) {
                 const DType dtype = accumulate_dtype(in[0].dtype());
                 const RopeTable table = rope_table(16, shape[-1], kRopeTheta, dtype, in[0].device());
                 return Outputs{rope(in[0], table.rows(first, shape[1]))};
               },
           .reference = [=](const std::vector<Tensor>& in) { return rope_reference(in[0], first); }});
    }
  }
  cases.push_back({.name = "positions stretched by 4",
                   .inputs = {normal({2, 3, 2, 6})},
                   .run =
                       [=](const Inputs& in) {
                         const DType dtype = accumulate_dtype(in[0].dtype());
                         const RopeScaling scaling{.kind = RopeScalingKind::kLinear, .factor = 4};
                         return Outputs{
                             rope(in[0], rope_table(3, 6, kRopeTheta, dtype, in[0].device(), scaling, 9))};
                       },
                   .reference = [=](const std::vector<Tensor>& in) { return rope_reference(in[0], 9, 4); }});
  // Documents that begin at 0, 2, 3 of the first sequence, and at 0, 4 of the second.
  const std::vector<std::int32_t> starts = {0, 0, 2, 3, 3, 0, 0, 0, 0, 4};
  cases.push_back(
      {.name = "documents",
       .inputs = {normal({2, 5, 3, 6})},
       .run =
           [=](const Inputs& in) {
             const DType dtype = accumulate_dtype(in[0].dtype());
             const Tensor tensor = empty({2, 5}, DType::kInt32);
             std::copy(starts.begin(), starts.end(), tensor.data<std::int32_t>());
             const RopeTable table = rope_table(16, 6, kRopeTheta, dtype, in[0].device());
             return Outputs{rope(in[0], table.rows(9, 5), tensor.to(in[0].device()))};
           },
       .reference =
           [=](const std::vector<Tensor>& in) {
             const Tensor y = empty_like(in[0]);
             for (std::int64_t i = 0; i < 10; ++i) {
               const Tensor token = in[0].reshape({10, 1, 3, 6}).slice(i, i + 1);
               const std::int64_t position = 9 + i % 5 - starts[static_cast<std::size_t>(i)];
               y.reshape({10, 1, 3, 6}).slice(i, i + 1).copy_from(rope_reference(token, position)[0]);
             }
             return std::vector<Tensor>{y};
           }});
  return cases;
}

OP_CASES(rope_packed) {
  OpCases cases;
  for (const std::int64_t heads : {0, 3, 5}) {
    cases.push_back({.name = std::to_string(heads) + " of 5 heads",
                     .inputs = {normal({2, 4, 5, 16})},
                     .run =
                         [=](const Inputs& in) {
                           const DType dtype = accumulate_dtype(in[0].dtype());
                           const RopeTable table = rope_table(16, 16, kRopeTheta, dtype, in[0].device());
                           const Variable own = scale(in[0], 1.0);  // a tensor that the op may change
                           return Outputs{rope_packed(own, heads, table.rows(9, 4))};
                         },
                     .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       const Tensor y = in[0].clone(), all = rope_reference(in[0], 9).front();
                       for (std::int64_t i = 0; i < y.numel(); ++i) {
                         if (i / 16 % 5 < heads) y.data<double>()[i] = all.data<double>()[i];
                       }
                       return {y};
                     }});
  }
  for (const std::int64_t selectable : {0, 1, 3}) {
    const std::int64_t tokens = 2 * 4;
    const Tensor selected = zeros({2, 4, selectable}, DType::kUInt8);
    for (std::int64_t i = 0; i < selected.numel(); ++i) selected.data<std::uint8_t>()[i] = i * i % 3 == 1;
    const auto turns = [=](std::int64_t token, std::int64_t head) {
      return head < 3 &&
             (head >= selectable || selected.data<std::uint8_t>()[token * selectable + head] != 0);
    };
    cases.push_back({.name = "some of " + std::to_string(selectable) + " heads, 3 of 5",
                     .inputs = {normal({2, 4, 5, 16})},
                     .run =
                         [=](const Inputs& in) {
                           const DType dtype = accumulate_dtype(in[0].dtype());
                           const RopeTable table = rope_table(4, 16, kRopeTheta, dtype, in[0].device());
                           const Variable own = scale(in[0], 1.0);  // a tensor that the op may change
                           return Outputs{rope_packed(own, 3, table, {}, selected.to(in[0].device()))};
                         },
                     .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       const Tensor y = in[0].clone(), all = rope_reference(in[0], 0).front();
                       for (std::int64_t i = 0; i < tokens * 5 * 16; ++i) {
                         if (turns(i / 16 / 5, i / 16 % 5)) y.data<double>()[i] = all.data<double>()[i];
                       }
                       return {y};
                     }});
  }
  return cases;
}

TEST_CASE("ops: rope_packed refuses a selection that is not that of its tokens and heads") {
  const RopeTable table = rope_table(3, 4, kRopeTheta);
  const auto run = [&](const Tensor& selected) {
    rope_packed(Variable(zeros({1, 3, 2, 4}, DType::kFloat32)), 1, table, {}, selected);
  };
  CHECK_NOTHROW(run(zeros({1, 3, 1}, DType::kUInt8)));
  CHECK_THROWS_AS(run(zeros({1, 3, 1}, DType::kFloat32)), DTypeError);
  CHECK_THROWS_AS(run(zeros({1, 2, 1}, DType::kUInt8)), ShapeError);
  CHECK_THROWS_AS(run(zeros({1, 3, 2}, DType::kUInt8)), ValueError);
}

TEST_CASE("ops: rope_packed changes its operand, and a gradient only where nobody else has it") {
  const RopeTable table = rope_table(3, 4, kRopeTheta);
  const Variable x(normal({1, 3, 2, 4}).to(DType::kFloat32), true);
  const Variable own = scale(x, 1.0);
  const Variable y = rope_packed(own, 1, table);
  CHECK(y.value().is_same(own.value()));
  const Tensor seed = normal({1, 3, 2, 4}, 2).to(DType::kFloat32), before = seed.clone();
  y.backward(seed);
  CHECK(same_bits(seed, before));
  CHECK_THROWS_AS(rope_packed(x, 1, table), InternalError);
  CHECK_THROWS_AS(rope_packed(scale(x, 1.0), 3, table), ValueError);
}

TEST_CASE("ops: rope keeps the dot product a function of the distance") {
  const RopeTable table = rope_table(100, 8, kRopeTheta, DType::kFloat64);
  const Tensor q = normal({1, 1, 1, 8}), k = normal({1, 1, 1, 8}, 2);
  const auto score = [&](std::int64_t q_position, std::int64_t k_position) {
    const Tensor a = rope(Variable(q), table.rows(q_position, 1)).value();
    const Tensor b = rope(Variable(k), table.rows(k_position, 1)).value();
    double sum = 0.0;
    for (int i = 0; i < 8; ++i) sum += a.data<double>()[i] * b.data<double>()[i];
    return sum;
  };
  CHECK(score(40, 33) == Approx(score(99, 92)).epsilon(1e-12));
  CHECK(std::abs(score(40, 33) - score(40, 32)) > 1e-3);
}

TEST_CASE("ops: rope_table is exact far from the origin") {
  const RopeTable table = rope_table(131072, 4, 500000.0);
  const double angle = 131071.0 * std::pow(500000.0, -0.5);
  CHECK(table.cos.data<float>()[131071 * 2 + 1] == static_cast<float>(std::cos(angle)));
  CHECK(table.sin.data<float>()[131071 * 2] == static_cast<float>(std::sin(131071.0)));
}

// The numbers are those of this command, which follows the code that Meta released with LLaMA 3.1:
//   python3 -c '
//   from math import pi
//   for i in range(0, 16, 2):
//       f = 500000.0 ** (-i / 16); w = 2 * pi / f; s = (8192 / w - 1) / (4 - 1)
//       print(f if w < 8192 / 4 else f / 8 if w > 8192 / 1 else (1 - s) * f / 8 + s * f)'
// transformers 4.57.6 has the same to its float32 (ROPE_INIT_FUNCTIONS["llama3"]).
TEST_CASE("ops: rope_frequencies are those of LLaMA 3.1") {
  const std::vector<double> expected = {1.0,
                                        0.19392274474868576,
                                        0.03760603093086393,
                                        0.007292664737217109,
                                        0.0005248461609929547,
                                        3.428102195952591e-05,
                                        6.647869871181235e-06,
                                        1.2891731721515574e-06};
  const std::vector<double> found = rope_frequencies(16, 500000.0, kLlama31);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1e-13));
  const RopeTable table = rope_table(9000, 16, 500000.0, DType::kFloat64, kCpu, kLlama31);
  CHECK(table.cos.data<double>()[8999 * 8 + 4] == Approx(std::cos(8999 * expected[4])).epsilon(1e-12));
  CHECK(table.sin.data<double>()[8999 * 8 + 4] == Approx(std::sin(8999 * expected[4])).epsilon(1e-12));
}

// The numbers are those of transformers 4.57.6 to its float32: ROPE_INIT_FUNCTIONS["yarn"] and ["dynamic"] of
// a LlamaConfig with head_dim 16.
TEST_CASE("ops: rope_frequencies of YaRN and of dynamic NTK are those of transformers") {
  const auto check = [](const std::vector<double>& found, const std::vector<double>& expected) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1e-6));
  };
  const RopeScaling qwen{.kind = RopeScalingKind::kYarn, .factor = 4, .original_positions = 32768};
  check(rope_frequencies(16, 1e6, qwen),
        {1.0, 0.17782793939113617, 0.03162277862429619, 0.004217559937387705, 0.0005000000237487257,
         4.4456985051510856e-05, 7.905693564680405e-06, 1.405853367941745e-06});
  CHECK(rope_attention_factor(qwen) == Approx(1.138629436111989).epsilon(1e-15));
  const RopeScaling other{.kind = RopeScalingKind::kYarn,
                          .factor = 8,
                          .original_positions = 64,
                          .beta_fast = 16,
                          .beta_slow = 0.5,
                          .attention_factor = 1.25,
                          .truncate = false};
  check(rope_frequencies(16, kRopeTheta, other),
        {1.0, 0.2105391025543213, 0.033156611025333405, 0.0039528473280370235, 0.0012499999720603228,
         0.00039528473280370235, 0.0001250000059371814, 3.9528473280370235e-05});
  CHECK(rope_attention_factor(other) == 1.25);
  const RopeTable table = rope_table(9, 16, kRopeTheta, DType::kFloat64, kCpu, other);
  CHECK(table.cos.data<double>()[8 * 8] == Approx(1.25 * std::cos(8.0)).epsilon(1e-15));

  const RopeScaling dynamic{.kind = RopeScalingKind::kDynamic, .factor = 2, .original_positions = 64};
  check(rope_frequencies(16, kRopeTheta, dynamic, 200),
        {1.0, 0.24952846765518188, 0.06226445361971855, 0.015536753460764885, 0.0038768628146499395,
         0.0009673875174485147, 0.0002413907350273803, 6.0233862313907593e-05});
  CHECK(rope_frequencies(16, kRopeTheta, dynamic, 64) == rope_frequencies(16, kRopeTheta));
  // The length is that of the sequence, wherever the rows begin.
  const RopeTable rows = rope_table(20, 16, kRopeTheta, DType::kFloat64, kCpu, dynamic, 180);
  const double angle = 199 * rope_frequencies(16, kRopeTheta, dynamic, 200)[3];
  CHECK(rows.sin.data<double>()[19 * 8 + 3] == Approx(std::sin(angle)).epsilon(1e-12));
}

TEST_CASE("ops: a factor of 1 leaves the frequencies of rope as they are") {
  for (const RopeScalingKind kind : {RopeScalingKind::kLinear, RopeScalingKind::kLlama3,
                                     RopeScalingKind::kYarn, RopeScalingKind::kDynamic}) {
    const std::vector<double> plain = rope_frequencies(64, kRopeTheta),
                              scaled = rope_frequencies(64, kRopeTheta, {kind, 1});
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(scaled[i] == Approx(plain[i]).epsilon(1e-15));
  }
}

TEST_CASE("ops: rope_at has the bits of rope, forward and backward, at positions in any order") {
  constexpr std::int64_t kRows = 11, kWidth = 6;
  const RopeTable table = rope_table(kRows, kWidth, kRopeTheta);
  const Tensor in = normal({1, kRows, 2, kWidth}).to(DType::kFloat32),
               dy = normal({1, kRows, 2, kWidth}, 2).to(DType::kFloat32);
  const Variable x(in, true);
  const Variable y = rope(x, table);
  y.backward(dy);
  Tensor positions = empty({1, kRows}, DType::kInt32), mixed = empty_like(in), mixed_dy = empty_like(in);
  const auto source = [](std::int64_t row) { return row * 7 % kRows; };
  for (std::int64_t row = 0; row < kRows; ++row) {
    positions.data<std::int32_t>()[row] = static_cast<std::int32_t>(source(row));
    mixed.select(0).select(row).copy_from(in.select(0).select(source(row)));
    mixed_dy.select(0).select(row).copy_from(dy.select(0).select(source(row)));
  }
  const Variable mixed_x(mixed, true);
  const Variable mixed_y = rope_at(mixed_x, table, positions);
  mixed_y.backward(mixed_dy);
  for (std::int64_t row = 0; row < kRows; ++row) {
    CHECK(same_bits(mixed_y.value().select(0).select(row), y.value().select(0).select(source(row))));
    CHECK(same_bits(mixed_x.grad().select(0).select(row), x.grad().select(0).select(source(row))));
  }
  positions.data<std::int32_t>()[3] = kRows;
  CHECK_THROWS_WITH(rope_at(mixed_x, table, positions),
                    "rope_at: positions: expected 0 to 10, rows of the table, found 11");
  CHECK_THROWS_AS(rope_at(mixed_x, table, zeros({1, kRows}, DType::kInt64)), DTypeError);
  CHECK_THROWS_AS(rope_at(mixed_x, table, zeros({1, 3}, DType::kInt32)), ShapeError);
}

TEST_CASE("ops: rope refuses what does not fit") {
  const RopeTable table = rope_table(16, 4, kRopeTheta, DType::kFloat64);
  const Variable x(normal({2, 3, 2, 4}));
  CHECK_THROWS_WITH(table.rows(14, 3),
                    "rope: positions: expected at most 16, the rows of the table, found 3 tokens from "
                    "position 14 on; build "
                    "the table for more positions");
  CHECK_NOTHROW(rope(x, table.rows(13, 3)));
  CHECK_THROWS_AS(rope(x, table.rows(0, 2)), ValueError);
  CHECK_THROWS_WITH(rope(Variable(normal({2, 3, 2, 5})), table),
                    "rope: x: expected an even last axis, found [2, 3, 2, 5]");
  CHECK_THROWS_WITH(rope(Variable(normal({2, 3, 2, 6})), table),
                    "rope: table.cos: expected [positions, 3], found [16, 2]");
  CHECK_THROWS_WITH(rope(x, rope_table(16, 4, kRopeTheta)),
                    "rope: table.cos: expected float64, found float32; pass this dtype to rope_table");
  CHECK_THROWS_AS(rope(x, {table.cos, rope_table(15, 4, kRopeTheta, DType::kFloat64).sin}), ShapeError);
  CHECK_THROWS_AS(table.rows(-1, 3), ValueError);
  CHECK_THROWS_WITH(rope(x, table, zeros({2, 2}, DType::kInt32)),
                    "rope: document_starts: expected shape [2, 3], found [2, 2]");
  CHECK_THROWS_AS(rope(x, table, zeros({2, 3}, DType::kInt64)), DTypeError);
  CHECK_THROWS_AS(rope(x, RopeTable{}), ValueError);
  CHECK_THROWS_AS(rope(Variable(normal({3, 2, 4})), table), ShapeError);
  CHECK_THROWS_WITH(rope_table(16, 5, kRopeTheta), "rope_table: head_dim: expected an even number, found 5");
  CHECK_THROWS_AS(rope_table(-1, 4, kRopeTheta), ShapeError);
  CHECK_THROWS_AS(rope_table(16, 4, 0.0), ValueError);
  CHECK_THROWS_AS(rope_table(16, 4, kRopeTheta, DType::kBFloat16), DTypeError);
  CHECK_THROWS_WITH(rope_frequencies(4, kRopeTheta, {RopeScalingKind::kLinear, 0.5}),
                    "rope_table: factor: expected 1 or more, found 0.500000");
  CHECK_THROWS_WITH(rope_frequencies(4, kRopeTheta, {RopeScalingKind::kLlama3, 8, 4, 4}),
                    "rope_table: high_freq_factor: expected more than low_freq_factor, found 4.000000");
  CHECK_THROWS_AS(rope_frequencies(4, kRopeTheta, {RopeScalingKind::kLlama3, 8, 0, 4}), ValueError);
  CHECK_THROWS_AS(rope_frequencies(4, kRopeTheta, {RopeScalingKind::kLlama3, 8, 1, 4, 0}), ValueError);
  CHECK_THROWS_AS(rope_frequencies(2, kRopeTheta, {RopeScalingKind::kDynamic, 2}), ValueError);
  CHECK_THROWS_AS(rope_frequencies(4, 1.0, {RopeScalingKind::kYarn, 2}), ValueError);
  CHECK_THROWS_WITH(rope_frequencies(4, kRopeTheta, {RopeScalingKind::kYarn, 2, 1, 4, 64, 1, 2}),
                    "rope_table: beta_fast: expected more than beta_slow, found 1.000000");
}
