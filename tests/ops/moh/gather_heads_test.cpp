#include "ops/moh/gather_heads.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "ops/moh/head_slots.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

struct GatherHeadsSizes {
  std::int64_t batch, tokens, heads, groups, each, head_dim;

  Shape of_heads() const { return {batch, tokens, heads, head_dim}; }
  Shape of_slots() const { return {batch, tokens, groups * each, head_dim}; }
};

/// No token, one head, an odd width, whole vectors, all heads selected, more than a chunk of tokens.
constexpr GatherHeadsSizes kSizes[] = {{1, 0, 4, 2, 1, 3},  {1, 1, 1, 1, 1, 1},  {2, 3, 6, 2, 2, 5},
                                       {1, 5, 8, 4, 1, 32}, {1, 4, 4, 2, 2, 19}, {1, 1100, 6, 3, 1, 16}};

/// `each` heads of each group, different ones for different tokens; none of some groups.
Tensor selection(const GatherHeadsSizes& s) {
  Tensor selected = zeros({s.batch, s.tokens, s.heads}, DType::kUInt8);
  const std::int64_t size = s.heads / s.groups;
  for (std::int64_t i = 0; i < s.batch * s.tokens * s.groups; ++i) {
    const auto first = static_cast<std::int64_t>(
        random_below({3, 1}, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(size)));
    for (std::int64_t j = 0; j < s.each && i % 5 != 4; ++j)
      selected.data<std::uint8_t>()[i * size + (first + j) % size] = 1;
  }
  return selected;
}

/// The slots of selection() on a device.
Tensor slots_on(const GatherHeadsSizes& s, Device device) {
  return head_slots(selection(s).to(device), s.groups, s.each);
}

/// Calls body(head, slot) for all slots, heads and slots counted through all tokens.
template <class Body>
void for_each_slot(const GatherHeadsSizes& s, const Body& body) {
  const Tensor slots = slots_on(s, kCpu);
  for (std::int64_t i = 0; i < slots.numel(); ++i)
    body(i / (s.groups * s.each) * s.heads + slots.data<std::int32_t>()[i], i);
}

Tensor gathered(const Tensor& x, const GatherHeadsSizes& s) {
  Tensor y = empty(s.of_slots(), DType::kFloat64);
  for_each_slot(s, [&](std::int64_t head, std::int64_t slot) {
    for (std::int64_t j = 0; j < s.head_dim; ++j)
      y.data<double>()[slot * s.head_dim + j] = x.data<double>()[head * s.head_dim + j];
  });
  return y;
}

/// Without gates they are 1.
Tensor scattered(const Tensor& y, const Tensor& gates, const GatherHeadsSizes& s) {
  Tensor x = zeros(s.of_heads(), DType::kFloat64);
  for_each_slot(s, [&](std::int64_t head, std::int64_t slot) {
    const double gate = gates.defined() ? gates.data<double>()[head] : 1.0;
    for (std::int64_t j = 0; j < s.head_dim; ++j)
      x.data<double>()[head * s.head_dim + j] = gate * y.data<double>()[slot * s.head_dim + j];
  });
  return x;
}

/// Gradients of scatter_heads with respect to y and gates.
std::vector<Tensor> scatter_gradients(const Tensor& y, const Tensor& gates, const Tensor& dx,
                                      const GatherHeadsSizes& s) {
  Tensor dy = empty_like(y), d_gates = zeros(gates.shape(), DType::kFloat64);
  for_each_slot(s, [&](std::int64_t head, std::int64_t slot) {
    for (std::int64_t j = 0; j < s.head_dim; ++j) {
      const double gradient = dx.data<double>()[head * s.head_dim + j];
      dy.data<double>()[slot * s.head_dim + j] = gates.data<double>()[head] * gradient;
      d_gates.data<double>()[head] += gradient * y.data<double>()[slot * s.head_dim + j];
    }
  });
  return {dy, d_gates};
}

/// The slots, and their sum with the gates of their heads.
Tensor with_sum(const Tensor& y, const Tensor& gates, const GatherHeadsSizes& s) {
  const std::int64_t slots = s.groups * s.each, d = s.head_dim;
  Tensor z = zeros({s.batch, s.tokens, slots + 1, d}, DType::kFloat64);
  for_each_slot(s, [&](std::int64_t head, std::int64_t slot) {
    double* token = z.data<double>() + slot / slots * (slots + 1) * d;
    for (std::int64_t j = 0; j < d; ++j) {
      const double value = y.data<double>()[slot * d + j];
      token[slot % slots * d + j] = value;
      token[slots * d + j] += gates.data<double>()[head] * value;
    }
  });
  return z;
}

/// Gradients of append_slot_sum with respect to y and gates.
std::vector<Tensor> sum_gradients(const Tensor& y, const Tensor& gates, const Tensor& dz,
                                  const GatherHeadsSizes& s) {
  const std::int64_t slots = s.groups * s.each, d = s.head_dim;
  Tensor dy = empty_like(y), d_gates = zeros(gates.shape(), DType::kFloat64);
  for_each_slot(s, [&](std::int64_t head, std::int64_t slot) {
    const double* token = dz.data<double>() + slot / slots * (slots + 1) * d;
    for (std::int64_t j = 0; j < d; ++j) {
      const double of_sum = token[slots * d + j];
      dy.data<double>()[slot * d + j] = token[slot % slots * d + j] + gates.data<double>()[head] * of_sum;
      d_gates.data<double>()[head] += of_sum * y.data<double>()[slot * d + j];
    }
  });
  return {dy, d_gates};
}

std::string name_of(const GatherHeadsSizes& s) {
  return to_string(s.of_heads()) + ", " + std::to_string(s.each) + " of each of " + std::to_string(s.groups) +
         " groups";
}

constexpr std::int64_t kManyElements = 20000;  // gradients in closed form

/// Cases of an op of slots with gates.
OpCases gated_cases(Variable (*op)(const Variable&, const Variable&, const Tensor&),
                    Tensor (*reference)(const Tensor&, const Tensor&, const GatherHeadsSizes&),
                    std::vector<Tensor> (*gradients)(const Tensor&, const Tensor&, const Tensor&,
                                                     const GatherHeadsSizes&)) {
  OpCases cases;
  for (const GatherHeadsSizes& s : kSizes) {
    cases.push_back(
        {.name = name_of(s),
         .inputs = {normal(s.of_slots()), uniform({s.batch, s.tokens, s.heads}, 0.5, 1.5)},
         .run = [=](const Inputs& in) { return Outputs{op(in[0], in[1], slots_on(s, in[0].device()))}; },
         .reference =
             [=](const std::vector<Tensor>& in) { return std::vector{reference(in[0], in[1], s)}; }});
    if (s.of_heads().numel() > kManyElements)
      cases.back().gradients = [=](const std::vector<Tensor>& in, const std::vector<Tensor>& dy) {
        return gradients(in[0], in[1], dy[0], s);
      };
  }
  return cases;
}

}  // namespace

OP_CASES(gather_heads) {
  OpCases cases;
  for (const GatherHeadsSizes& s : kSizes) {
    cases.push_back(
        {.name = name_of(s),
         .inputs = {normal(s.of_heads())},
         .run = [s](const Inputs& in) { return Outputs{gather_heads(in[0], slots_on(s, in[0].device()))}; },
         .reference = [s](const std::vector<Tensor>& in) { return std::vector{gathered(in[0], s)}; }});
    if (s.of_heads().numel() > kManyElements)
      cases.back().gradients = [s](const std::vector<Tensor>&, const std::vector<Tensor>& dy) {
        return std::vector{scattered(dy[0], Tensor(), s)};
      };
  }
  return cases;
}

OP_CASES(scatter_heads) {
  return gated_cases(&scatter_heads, &scattered, &scatter_gradients);
}

OP_CASES(append_slot_sum) {
  return gated_cases(&append_slot_sum, &with_sum, &sum_gradients);
}

TEST_CASE("ops: gathering copies bits, and scattering with gates of 1 returns them") {
  const GatherHeadsSizes s{1, 2, 4, 2, 1, 3};
  const Tensor x = normal(s.of_heads()).to(DType::kFloat32);
  x.data<float>()[0] = std::nanf("");
  x.data<float>()[4] = HUGE_VALF;
  const Tensor slots = tensor_of<std::int32_t>({1, 2, 2, 1}, {0, 2, 1, 3});
  const Variable y = gather_heads(Variable(x), slots);
  CHECK(std::isnan(y.value().data<float>()[0]));
  const Variable ones(full({1, 2, 4}, 1.0, DType::kFloat32));
  const Tensor back = scatter_heads(y, ones, slots).value();
  for (const std::int64_t i : {1, 2, 6, 7, 8, 15, 16, 17, 21, 22, 23})
    CHECK(back.data<float>()[i] == x.data<float>()[i]);
  for (const std::int64_t i : {3, 4, 5, 9, 10, 11, 12, 13, 14, 18, 19, 20}) CHECK(back.data<float>()[i] == 0);
}

TEST_CASE("ops: heads and slots that do not fit are refused") {
  const GatherHeadsSizes s{2, 3, 4, 2, 1, 5};
  const Variable x(normal(s.of_heads())), y(normal(s.of_slots())), gates(normal({2, 3, 4}));
  const Tensor slots = slots_on(s, kCpu);
  CHECK_THROWS_WITH(
      gather_heads(Variable(normal({2, 2, 4, 5})), slots),
      "gather_heads: slots: expected shape [2, 2, 2, 1] (batch and tokens of the heads), found [2, 3, 2, 1]");
  CHECK_THROWS_WITH(gather_heads(Variable(normal({2, 3, 5, 5})), slots),
                    "gather_heads: slots: expected those of groups of the 5 heads, found [2, 3, 2, 1]");
  CHECK_THROWS_AS(gather_heads(x, slots.to(DType::kInt64)), DTypeError);
  CHECK_THROWS_AS(scatter_heads(x, gates, slots), ShapeError);
  CHECK_THROWS_AS(scatter_heads(y, Variable(normal({2, 2, 4})), slots), ShapeError);
  CHECK_THROWS_AS(scatter_heads(y, Variable(slots), slots), DTypeError);
  CHECK_THROWS_AS(append_slot_sum(x, gates, slots), ShapeError);
}
