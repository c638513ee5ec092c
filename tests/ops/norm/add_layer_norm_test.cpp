#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "ops/dropout/drop_path.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/gate_residual.h"
#include "ops/norm/layer_norm.h"
#include "ops/shape/reshape.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kEps = 1e-5;
constexpr RandomKey kKey{0xfedcba987654321ULL, 7};
constexpr double kRate = 0.4;
constexpr std::int64_t kGate = 0, kShift = 1;

/// Kinds of residual branches.
enum class Kind { kNothing, kPlain, kDropped, kGated, kGatedByOthers };

std::string name_of_norm(Kind kind) {
  constexpr const char* kNames[] = {"nothing", "a branch", "a branch with samples dropped",
                                    "gates of the norm's modulation", "gates of another modulation"};
  return kNames[static_cast<int>(kind)];
}

bool is_gated(Kind kind) {
  return kind == Kind::kGated || kind == Kind::kGatedByOthers;
}

/// Inputs x, branch, gates' modulation, then weight and bias or the norm's modulation.
ResidualBranch branch_of(const Inputs& in, Kind kind) {
  switch (kind) {
    case Kind::kNothing:
      return {};
    case Kind::kPlain:
      return {in[1]};
    case Kind::kDropped:
      return {in[1], kRate, kKey};
    default:
      return {.value = in[1], .modulation = kind == Kind::kGated ? in[3] : in[2], .gate = kGate};
  }
}

Variable sum_of(const Inputs& in, Kind kind) {
  switch (kind) {
    case Kind::kNothing:
      return in[0];
    case Kind::kPlain:
      return add(in[0], in[1]);
    case Kind::kDropped:
      return add_drop_path(in[0], in[1], kRate, kKey);
    default:
      return gate_residual(in[0], in[1], kind == Kind::kGated ? in[3] : in[2], kGate);
  }
}

AddedAndNormed in_one(const Inputs& in, Kind kind, bool modulated) {
  if (modulated) return add_layer_norm_modulate(in[0], branch_of(in, kind), in[3], kShift, kEps);
  return add_layer_norm(in[0], branch_of(in, kind), in[3], in[4], kEps);
}

AddedAndNormed in_two(const Inputs& in, Kind kind, bool modulated) {
  const Variable sum = sum_of(in, kind);
  if (modulated) return {sum, layer_norm_modulate(sum, in[3], kShift, kEps)};
  return {sum, layer_norm(sum, in[3], in[4], kEps)};
}

/// Operands as results of ops: on a GPU gradients are added to those of other ops.
Inputs results_of_ops(const Inputs& in) {
  Inputs results;
  for (const Variable& each : in) results.push_back(each.defined() ? reshape(each, each.shape()) : each);
  return results;
}

std::vector<Tensor> operands(const Shape& shape, Kind kind, bool modulated) {
  const Shape last{shape[-1]}, rows{shape[0], 4, shape[-1]};
  std::vector<Tensor> in{normal(shape, 1), kind == Kind::kNothing ? Tensor() : normal(shape, 2),
                         kind == Kind::kGatedByOthers ? normal(rows, 3) : Tensor()};
  in.push_back(modulated ? normal(rows, 4) : uniform(last, 0.5, 1.5));
  if (!modulated) in.push_back(normal(last, 5));
  return in;
}

OpCases cases_of(bool modulated) {
  OpCases cases;
  for (const Shape& shape : {Shape{0, 3, 4}, Shape{2, 0, 4}, Shape{3, 8}, Shape{2, 5, 7}, Shape{3, 2, 4, 32},
                             Shape{5, 20, 33}, Shape{4, 3, 264}}) {
    for (const Kind kind :
         {Kind::kNothing, Kind::kPlain, Kind::kDropped, Kind::kGated, Kind::kGatedByOthers}) {
      if (is_gated(kind) && !modulated) continue;
      cases.push_back({.name = to_string(shape) + " and " + name_of_norm(kind),
                       .inputs = operands(shape, kind, modulated),
                       .run =
                           [=](const Inputs& in) {
                             const AddedAndNormed y = in_one(results_of_ops(in), kind, modulated);
                             return Outputs{y.sum, y.normed};
                           },
                       .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                         Inputs variables;
                         for (const Tensor& each : in)
                           variables.push_back(each.defined() ? Variable(each) : Variable());
                         const AddedAndNormed y = in_two(variables, kind, modulated);
                         return {y.sum.value(), y.normed.value()};
                       }});
    }
  }
  return cases;
}

}  // namespace

OP_CASES(add_layer_norm) {
  return cases_of(false);
}

OP_CASES(add_layer_norm_modulate) {
  return cases_of(true);
}

namespace {

/// Results and gradients of an op, where the norm alone is used, the sum alone, or both.
std::vector<Tensor> results_of(AddedAndNormed (*op)(const Inputs&, Kind, bool), Kind kind, bool modulated,
                               DType dtype, int used) {
  Inputs in;
  for (const Tensor& each : operands({3, 5, 37}, kind, modulated))
    in.push_back(each.defined() ? Variable(each.to(dtype), true) : Variable());
  const AddedAndNormed y = op(results_of_ops(in), kind, modulated);
  std::vector<Tensor> results{y.sum.value(), y.normed.value()};
  const Tensor dy = normal({3, 5, 37}, 9).to(dtype);
  if (used == 0) y.normed.backward(dy);
  if (used == 1) y.sum.backward(dy);
  if (used == 2) add(y.sum, y.normed).backward(dy);
  for (const Variable& each : in) {
    if (each.defined()) results.push_back(each.grad());
  }
  return results;
}

}  // namespace

TEST_CASE("ops: layer norms that add branches have the bits of two ops on a CPU, whatever of them is used") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Kind kind :
         {Kind::kNothing, Kind::kPlain, Kind::kDropped, Kind::kGated, Kind::kGatedByOthers}) {
      for (const bool modulated : {false, true}) {
        if (is_gated(kind) && !modulated) continue;
        for (const int used : {0, 1, 2}) {
          INFO(dtype_name(dtype) << ", " << name_of_norm(kind) << (modulated ? ", modulated, " : ", ")
                                 << used);
          const std::vector<Tensor> one = results_of(in_one, kind, modulated, dtype, used),
                                    two = results_of(in_two, kind, modulated, dtype, used);
          for (std::size_t i = 0; i < two.size(); ++i) {
            if (!two[i].defined()) continue;  // then zeros
            INFO("result " << i);
            CHECK(std::memcmp(one[i].raw(), two[i].raw(), two[i].bytes()) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("ops: layer norms refuse branches that do not fit") {
  const Variable x(normal({2, 3, 5})), none, rows(normal({2, 4, 5}));
  const auto with = [&](const ResidualBranch& branch) { return add_layer_norm(x, branch, none, none, kEps); };
  CHECK_THROWS_WITH(with({Variable(normal({2, 3, 6}))}),
                    "add_layer_norm: branch: expected shape [2, 3, 5] (as x), found [2, 3, 6]");
  CHECK_THROWS_AS(with({Variable(normal({2, 3, 5}).to(DType::kFloat32))}), DTypeError);
  CHECK_THROWS_AS(with({x, 1.0, kKey}), ValueError);
  CHECK_THROWS_WITH(with({.value = x, .modulation = rows}),
                    "add_layer_norm: modulation: expected none, as the norm has none, found one");
  const auto modulated = [&](const ResidualBranch& branch) {
    return add_layer_norm_modulate(x, branch, rows, 0, kEps);
  };
  CHECK_THROWS_WITH(modulated({.value = x, .modulation = rows, .gate = 4}),
                    "add_layer_norm_modulate: row of modulation: expected 0 to 3, found 4");
  CHECK_THROWS_WITH(modulated({.value = x, .drop_rate = 0.5, .modulation = rows}),
                    "add_layer_norm_modulate: drop_rate: expected 0 beside gates, found 0.500000");
}
