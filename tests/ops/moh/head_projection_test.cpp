#include "ops/moh/head_projection.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "core/random.h"
#include "ops/linalg/linear.h"
#include "ops/shape/reshape.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

struct Sizes {
  std::int64_t batch, tokens, heads, head_dim, width;
};
std::string name_of(const Sizes& s) {
  return to_string(Shape{s.batch, s.tokens, s.heads, s.head_dim}) + " width " + std::to_string(s.width);
}

/// uint8 [B, T, H]: each pair with the probability `active`; head 0 for nobody unless all heads are active.
Tensor selection(const Sizes& s, double active) {
  const Tensor chance = uniform({s.batch, s.tokens, s.heads}, 0, 1, 5);
  Tensor selected = zeros(chance.shape(), DType::kUInt8);
  for (std::int64_t i = 0; i < chance.numel(); ++i) {
    const bool used = active == 1.0 || (chance.data<double>()[i] < active && i % s.heads > 0);
    selected.data<std::uint8_t>()[i] = used ? 1 : 0;
  }
  return selected;
}

/// Sizes with and without remainders of tiles, vectors and panels; lists that are empty, partial and full.
const std::vector<std::pair<Sizes, double>> kCases = {
    {{1, 1, 1, 1, 1}, 1.0},   {{2, 9, 3, 5, 7}, 0.6},   {{1, 14, 2, 16, 64}, 0.5},
    {{2, 7, 4, 24, 66}, 0.4}, {{1, 13, 2, 33, 9}, 1.0}, {{1, 6, 3, 8, 12}, 0.0},
};

double at(const Tensor& x, std::int64_t i) {
  return x.data<double>()[i];
}

Tensor to_heads_reference(const Sizes& s, const Tensor& selected, const std::vector<Tensor>& in) {
  const std::int64_t out = in[1].dim(0), heads = out / s.head_dim;
  Tensor y = zeros({s.batch, s.tokens, heads, s.head_dim}, DType::kFloat64);
  for (std::int64_t i = 0; i < s.batch * s.tokens; ++i) {
    for (std::int64_t o = 0; o < out; ++o) {
      const std::int64_t head = o / s.head_dim;
      if (head < s.heads && selected.data<std::uint8_t>()[i * s.heads + head] == 0) continue;
      double sum = in.size() > 2 ? at(in[2], o) : 0.0;
      for (std::int64_t n = 0; n < s.width; ++n)
        sum += at(in[0], i * s.width + n) * at(in[1], o * s.width + n);
      y.data<double>()[i * out + o] = sum;
    }
  }
  return y;
}

Tensor from_heads_reference(const Sizes& s, const Tensor& selected, const std::vector<Tensor>& in) {
  const std::int64_t inner = s.heads * s.head_dim;
  Tensor y = zeros({s.batch, s.tokens, s.width}, DType::kFloat64);
  for (std::int64_t i = 0; i < s.batch * s.tokens; ++i) {
    for (std::int64_t o = 0; o < s.width; ++o) {
      double sum = in.size() > 2 ? at(in[2], o) : 0.0;
      for (std::int64_t k = 0; k < inner; ++k) {
        if (selected.data<std::uint8_t>()[i * s.heads + k / s.head_dim] == 0) continue;
        sum += at(in[0], i * inner + k) * at(in[1], o * inner + k);
      }
      y.data<double>()[i * s.width + o] = sum;
    }
  }
  return y;
}

Variable bias_of(const Inputs& in) {
  return in.size() > 2 ? in[2] : Variable();
}

}  // namespace

OP_CASES(project_to_heads) {
  OpCases cases;
  for (const auto& [s, active] : kCases) {
    const Tensor selected = selection(s, active);
    const HeadLists lists = build_head_lists(selected, s.heads);
    for (std::int64_t dense : {0, 2}) {  // heads behind the listed ones
      for (bool with_bias : {false, true}) {
        const std::int64_t out = (s.heads + dense) * s.head_dim;
        std::vector<Tensor> inputs = {normal({s.batch, s.tokens, s.width}, 1), normal({out, s.width}, 2)};
        if (with_bias) inputs.push_back(normal({out}, 3));
        cases.push_back({.name = name_of(s) + " dense " + std::to_string(dense) + (with_bias ? " bias" : ""),
                         .inputs = inputs,
                         .run = [=](const Inputs& in) -> Outputs {
                           return {project_to_heads(in[0], in[1], bias_of(in), lists, s.head_dim)};
                         },
                         .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                           return {to_heads_reference(s, selected, in)};
                         }});
      }
    }
  }
  return cases;
}

OP_CASES(project_from_heads) {
  OpCases cases;
  for (const auto& [s, active] : kCases) {
    const Tensor selected = selection(s, active);
    const HeadLists lists = build_head_lists(selected, s.heads);
    for (bool with_bias : {false, true}) {
      std::vector<Tensor> inputs = {normal({s.batch, s.tokens, s.heads, s.head_dim}, 1),
                                    normal({s.width, s.heads * s.head_dim}, 2)};
      if (with_bias) inputs.push_back(normal({s.width}, 3));
      cases.push_back({.name = name_of(s) + (with_bias ? " bias" : ""),
                       .inputs = inputs,
                       .run = [=](const Inputs& in) -> Outputs {
                         return {project_from_heads(in[0], in[1], bias_of(in), lists)};
                       },
                       .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                         return {from_heads_reference(s, selected, in)};
                       }});
    }
  }
  return cases;
}

namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double largest = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    largest = std::max<double>(largest, std::abs(a.data<float>()[i] - b.data<float>()[i]));
  }
  return largest;
}

Variable leaf(const Shape& shape, std::uint64_t seed) {
  return Variable(normal(shape, seed).to(DType::kFloat32), true);
}

}  // namespace

TEST_CASE("ops: head projections over several tasks agree with dense ones when every head is listed") {
  // More rows, tokens and columns than one task takes, none a multiple of it.
  const Sizes s{2, 517, 3, 20, 274};
  const HeadLists lists = build_head_lists(selection(s, 1.0), s.heads);
  const Shape packed{s.batch, s.tokens, s.heads + 1, s.head_dim};
  Variable x = leaf({s.batch, s.tokens, s.width}, 1), w = leaf({(s.heads + 1) * s.head_dim, s.width}, 2);
  Variable bias = leaf({w.dim(0)}, 3), same_x(x.value(), true), same_w(w.value(), true),
           same_bias(bias.value(), true);
  const Tensor dy = normal(packed, 4).to(DType::kFloat32);
  const Variable sparse = project_to_heads(x, w, bias, lists, s.head_dim);
  const Variable dense = reshape(linear(same_x, same_w, same_bias), packed);
  CHECK(largest_difference(sparse.value(), dense.value()) < 1e-4);
  sparse.backward(dy);
  dense.backward(dy);
  CHECK(largest_difference(x.grad(), same_x.grad()) < 1e-4);
  CHECK(largest_difference(w.grad(), same_w.grad()) < 1e-3);
  CHECK(largest_difference(bias.grad(), same_bias.grad()) < 1e-3);
}

TEST_CASE("ops: output projections over several tasks agree with dense ones when every head is listed") {
  const Sizes s{2, 517, 3, 20, 274};
  const HeadLists lists = build_head_lists(selection(s, 1.0), s.heads);
  Variable heads = leaf({s.batch, s.tokens, s.heads, s.head_dim}, 1);
  Variable w = leaf({s.width, s.heads * s.head_dim}, 2);
  Variable same_heads(heads.value(), true), same_w(w.value(), true);
  const Tensor dy = normal({s.batch, s.tokens, s.width}, 4).to(DType::kFloat32);
  const Variable sparse = project_from_heads(heads, w, Variable(), lists);
  const Variable dense = linear(reshape(same_heads, {s.batch, s.tokens, -1}), same_w);
  CHECK(largest_difference(sparse.value(), dense.value()) < 1e-4);
  sparse.backward(dy);
  dense.backward(dy);
  CHECK(largest_difference(heads.grad(), same_heads.grad()) < 1e-4);
  CHECK(largest_difference(w.grad(), same_w.grad()) < 1e-3);
}

TEST_CASE("ops: head projections read a tensor that has been released in one thread alone") {
  const Sizes s{2, 517, 3, 20, 274};
  const HeadLists lists = build_head_lists(selection(s, 1.0), s.heads);
  const Variable x = leaf({s.batch, s.tokens, s.width}, 1);
  const auto released = [](const Variable& weight) {
    weight.value().release_until_read([copy = weight.value().clone(), reader = std::this_thread::get_id()] {
      CHECK(std::this_thread::get_id() == reader);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // other threads would come
      return copy.clone();
    });
    return weight;
  };
  const Variable in = leaf({s.heads * s.head_dim, s.width}, 2),
                 out = leaf({s.width, s.heads * s.head_dim}, 3);
  const Variable heads = project_to_heads(x, in, Variable(), lists, s.head_dim);
  const Tensor expected = project_from_heads(heads, out, Variable(), lists).value();
  const Variable again = project_to_heads(x, released(in), Variable(), lists, s.head_dim);
  CHECK(largest_difference(project_from_heads(again, released(out), Variable(), lists).value(), expected) ==
        0);
}

TEST_CASE("ops: head projections ignore what unlisted pairs hold") {
  const Sizes s{1, 8, 2, 4, 6};
  const Tensor selected = selection(s, 0.5);
  const HeadLists lists = build_head_lists(selected, s.heads);
  const Variable w = leaf({s.width, s.heads * s.head_dim}, 2);
  const Tensor clean = normal({1, 8, 2, 4}, 1).to(DType::kFloat32), dirty = clean.clone();
  for (std::int64_t i = 0; i < dirty.numel(); ++i) {
    if (selected.data<std::uint8_t>()[i / s.head_dim] == 0) dirty.data<float>()[i] = std::nanf("");
  }
  const Variable a = project_from_heads(Variable(clean), w, Variable(), lists);
  const Variable b = project_from_heads(Variable(dirty), w, Variable(), lists);
  CHECK(largest_difference(a.value(), b.value()) == 0);
}

TEST_CASE("ops: head projections refuse what does not fit") {
  const Sizes s{1, 8, 4, 4, 6};
  const Tensor selected = selection(s, 0.5);
  const HeadLists lists = build_head_lists(selected, 4), grouped = build_head_lists(selected, 2);
  const Variable x = leaf({1, 8, 6}, 1), w = leaf({16, 6}, 2), heads = leaf({1, 8, 4, 4}, 3);
  CHECK_THROWS_AS(project_to_heads(x, w, {}, grouped, 4), ShapeError);
  CHECK_THROWS_AS(project_to_heads(x, w, {}, lists, 5), ShapeError);                   // 16 is no multiple
  CHECK_THROWS_AS(project_to_heads(x, leaf({12, 6}, 2), {}, lists, 4), ShapeError);    // fewer than 4 heads
  CHECK_THROWS_AS(project_to_heads(x, leaf({16, 5}, 2), {}, lists, 4), ShapeError);    // another width
  CHECK_THROWS_AS(project_to_heads(leaf({1, 7, 6}, 1), w, {}, lists, 4), ShapeError);  // other lists
  CHECK_THROWS_AS(project_to_heads(x, w, leaf({15}, 3), lists, 4), ShapeError);
  CHECK_THROWS_AS(project_from_heads(heads, leaf({6, 15}, 2), {}, lists), ShapeError);
  CHECK_THROWS_AS(project_from_heads(leaf({1, 8, 3, 4}, 3), leaf({6, 12}, 2), {}, lists), ShapeError);
}
