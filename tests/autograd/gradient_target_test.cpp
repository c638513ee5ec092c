#include "autograd/gradient_target.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "autograd/node.h"
#include "autograd/profile.h"
#include "core/dry_run.h"
#include "ops/attention/head_lists.h"
#include "ops/conv/conv2d.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/gate_residual.h"
#include "ops/elementwise/scale.h"
#include "ops/embedding/embedding.h"
#include "ops/linalg/gelu_mlp.h"
#include "ops/linalg/linear.h"
#include "ops/moh/head_projection.h"
#include "ops/norm/group_norm.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/tokens/add_positions.h"
#include "tests/ops/op_cases.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

Variable parameter(const Shape& shape, std::uint64_t seed, DType dtype = DType::kFloat32) {
  return Variable(normal(shape, seed).to(dtype), /*requires_grad=*/true);
}

/// Has the gradients gathered side by side in one storage that holds NaN.
void gather_in_buffer(std::vector<Variable>& leaves) {
  std::int64_t all = 0, begin = 0;
  for (const Variable& leaf : leaves) all += leaf.numel();
  const Tensor buffer = full({all}, std::nan(""), accumulate_dtype(leaves[0].dtype()));
  for (Variable& leaf : leaves) {
    leaf.keep_gradient_in(buffer.slice(begin, begin + leaf.numel()).reshape(leaf.shape()));
    begin += leaf.numel();
  }
}

void differentiate(const Variable& y) {
  y.backward(normal(y.shape(), 9).to(y.dtype()));
}

/// How often gradients were copied or summed outside of ops in a backward pass.
std::int64_t sums_in(const std::vector<Variable>& outputs) {
  DeviceClock no_clock([] { return 0.0; });
  const Profiler profiler(no_clock);
  std::vector<Tensor> seeds;
  for (const Variable& y : outputs) seeds.push_back(normal(y.shape(), 9).to(y.dtype()));
  backward(outputs, seeds);
  std::int64_t sums = 0;
  for (const ProfileEntry& entry : profiler.entries()) {
    if (entry.op == "sum_gradients") sums += entry.calls;
  }
  return sums;
}
std::int64_t sums_in(const Variable& y) {
  return sums_in(std::vector{y});
}

/// y = x, whose gradient is added to the sum so far of that of x, if there is one: `added` says whether.
Variable adding(const Variable& x, bool& added) {
  return record("adding", x.value().clone(), {x}, [&added](const Tensor& dy) -> Grads {
    const Tensor sum = gradient_sum_of_input(0);
    added = sum.defined();
    if (!added) return {dy};
    sum.add(dy);
    return {sum};
  });
}

std::vector<Tensor> gradients_of(const std::vector<Variable>& leaves) {
  std::vector<Tensor> gradients;
  for (const Variable& leaf : leaves) gradients.push_back(leaf.grad().clone());
  return gradients;
}

/// An op with parameters alone as differentiable inputs.
struct OpOfParameters {
  std::string name;
  std::vector<Variable> parameters;
  std::function<Variable()> run;
};

std::vector<OpOfParameters> ops_of(DType dtype) {
  const auto data = [=](const Shape& shape) { return Variable(normal(shape, 8).to(dtype)); };
  const auto leaf = [=](const Shape& shape, std::uint64_t seed) { return parameter(shape, seed, dtype); };
  const Variable w = leaf({6, 5}, 1), b = leaf({6}, 2), w2 = leaf({5, 6}, 3), b2 = leaf({5}, 4);
  const Variable table = leaf({7, 4}, 5), norm = leaf({5}, 6), kernel = leaf({6, 5, 1, 1}, 7);
  const Tensor ids = tensor_of<std::int64_t>({5}, {1, 0, 6, 1, 3});
  const Tensor selected = tensor_of<std::uint8_t>({1, 3, 3}, {1, 0, 0, 1, 1, 0, 0, 1, 0});
  const HeadLists lists = build_head_lists(selected, 3);  // nobody selects the last head
  return {
      {"linear",
       {w},
       [=] {
         return linear(data({9, 5}), w);
       }},
      {"linear with bias",
       {w, b},
       [=] {
         return linear(data({9, 5}), w, b);
       }},
      {"linear of no rows",
       {w, b},
       [=] {
         return linear(data({0, 5}), w, b);
       }},
      {"gelu_mlp",
       {w, b, w2, b2},
       [=] {
         return gelu_mlp(data({9, 5}), w, b, w2, b2, GeluForm::kExact);
       }},
      {"embedding", {table}, [=] { return embedding(table, ids); }},
      {"rms_norm",
       {norm},
       [=] {
         return rms_norm(data({9, 5}), norm, 1e-6);
       }},
      {"conv2d",
       {kernel},
       [=] {
         return conv2d(data({2, 3, 3, 5}), kernel, {}, {});
       }},
      {"project_to_heads",
       {w},
       [=] {
         return project_to_heads(data({1, 3, 5}), w, {}, lists, 2);
       }},
      {"project_from_heads",
       {w2},
       [=] {
         return project_from_heads(data({1, 3, 3, 2}), w2, {}, lists);
       }},
  };
}

}  // namespace

TEST_CASE("gradient target: the first contribution of an op is computed in the buffer, without a copy") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::vector<OpOfParameters> plain = ops_of(dtype), buffered = ops_of(dtype);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      INFO(plain[i].name << ", " << dtype_name(dtype));
      std::vector<Variable>& leaves = buffered[i].parameters;
      for (Variable& leaf : leaves) leaf.zero_grad();
      gather_in_buffer(leaves);
      CHECK(sums_in(buffered[i].run()) == 0);
      for (Variable& leaf : plain[i].parameters) leaf.zero_grad();
      differentiate(plain[i].run());
      CHECK(same_bits(gradients_of(leaves), gradients_of(plain[i].parameters)));
      differentiate(buffered[i].run());
      differentiate(plain[i].run());
      CHECK(same_bits(gradients_of(leaves), gradients_of(plain[i].parameters)));
    }
  }
}

TEST_CASE("gradient target: every op has the same gradients in buffers") {
  for (const OpCase& op_case : all_op_cases()) {
    INFO(op_case.name);
    const auto gradients = [&](bool in_buffer) {
      std::vector<Variable> inputs, leaves;
      for (const Tensor& input : op_case.inputs) {
        const bool is_leaf = input.defined() && is_floating(input.dtype());
        inputs.push_back(input.defined() ? Variable(input, is_leaf) : Variable());
        if (is_leaf) leaves.push_back(inputs.back());
      }
      if (in_buffer) gather_in_buffer(leaves);
      for (int pass = 0; pass < 2; ++pass) {
        std::vector<Variable> outputs;
        std::vector<Tensor> seeds;
        for (const Variable& output : op_case.run(inputs)) {
          if (!output.requires_grad()) continue;
          outputs.push_back(output);
          seeds.push_back(normal(output.shape(), 9).to(output.dtype()));
        }
        backward(outputs, seeds);
      }
      std::vector<Tensor> all;
      for (const Variable& leaf : leaves)
        all.push_back(leaf.grad().defined() ? leaf.grad().clone() : Tensor());
      return all;
    };
    CHECK(same_bits(gradients(true), gradients(false)));
  }
}

TEST_CASE("gradient target: a weight that an op has twice gets the sum") {
  std::vector<Variable> leaves = {parameter({4, 3}, 2)};
  const Variable x(normal({6, 3}).to(DType::kFloat32));
  const auto differentiate_both = [&](const Variable& w) {
    const std::vector<Variable> both = linears(x, {w, w});
    const Tensor dy = normal({6, 4}, 9).to(DType::kFloat32);
    backward(both, std::vector<Tensor>{dy, dy});
    return w.grad().clone();
  };
  const Tensor expected = differentiate_both(parameter({4, 3}, 2));
  gather_in_buffer(leaves);
  CHECK(same_bits(differentiate_both(leaves[0]), expected));
}

TEST_CASE("gradient target: a gradient that lies in the storage of another is not taken for it") {
  const Tensor buffer = tensor_of<float>({4}, {1, 2, 3, 4});
  Variable x(zeros({2}, DType::kFloat32), true);
  x.keep_gradient_in(buffer.slice(0, 2));
  x.accumulate_grad(buffer.slice(2, 4));  // of a neighbour
  CHECK(buffer.span<float>()[0] == 3);
  x.accumulate_grad(buffer.slice(2, 4));
  CHECK(buffer.span<float>()[1] == 8);
}

TEST_CASE("gradient target: a weight's gradient takes its own memory and no more, on both devices") {
  for (const Device device : {kCpu, Device{Device::Type::kCuda, 0}}) {
    for (const bool in_buffer : {false, true}) {
      const DryRunScope scope;
      const std::int64_t side = 1 << 14, weight = 4 * side * side;
      Variable w(empty({side, side}, DType::kFloat32, device), true);
      if (in_buffer) w.keep_gradient_in(empty(w.shape(), DType::kFloat32, device));
      const Variable y = linear(Variable(empty({8, side}, DType::kFloat32, device)), w);
      const Tensor dy = empty(y.shape(), DType::kFloat32, device);
      scope.memory()->reset_peaks();
      y.backward(dy);
      const MemoryStats stats = scope.memory()->usage(device).stats;
      CHECK(stats.total.peak_bytes >= 2 * weight);
      CHECK(stats.total.peak_bytes < 2 * weight + weight / 4);
      CHECK(w.grad().defined());
    }
  }
}

TEST_CASE("ops: gradients of bfloat16 parameters are not rounded to it, as micro-batches add them up") {
  constexpr DType kNarrow = DType::kBFloat16;
  std::vector<OpOfParameters> ops = ops_of(kNarrow);
  const Variable x(normal({4, 3, 2, 6}, 8).to(kNarrow)), tokens = Variable(normal({4, 3, 6}, 8).to(kNarrow));
  const Variable w = parameter({6}, 1, kNarrow), b = parameter({6}, 2, kNarrow);
  const Variable modulation = parameter({4, 2, 6}, 3, kNarrow), positions = parameter({1, 3, 6}, 4, kNarrow);
  ops.push_back({"layer_norm", {w, b}, [=] { return layer_norm(x, w, b, 1e-6); }});
  ops.push_back({"group_norm", {w, b}, [=] { return group_norm(x, w, b, 2, 1e-6); }});
  ops.push_back({"layer_norm_modulate", {modulation}, [=] {
                   return layer_norm_modulate(tokens, modulation, 0, 1e-6);
                 }});
  ops.push_back(
      {"gate_residual", {modulation}, [=] { return gate_residual(tokens, tokens, modulation, 1); }});
  ops.push_back({"add_positions", {positions}, [=] { return add_positions(tokens, {}, positions); }});
  for (OpOfParameters& op : ops) {
    if (op.name == "linear of no rows") continue;  // zeros
    INFO(op.name);
    for (Variable& leaf : op.parameters) leaf.zero_grad();
    differentiate(op.run());
    for (const Variable& leaf : op.parameters) {
      const Tensor rounded = leaf.grad().to(kNarrow).to(DType::kFloat32);
      CHECK_FALSE(same_bits(leaf.grad(), rounded));
    }
  }
}

TEST_CASE("autograd: an op may add to what others have left as the gradient of its input") {
  Variable leaf = parameter({5}, 1);
  const Tensor dy = normal({5}, 9).to(DType::kFloat32);
  bool added = false;
  const auto gradient_is = [&](double factor) {
    for (std::int64_t i = 0; i < 5; ++i)
      CHECK(leaf.grad().data<float>()[i] == Approx(factor * dy.data<float>()[i]));
    leaf.zero_grad();
  };
  SECTION("the last one, as ops run from the newest to the oldest") {
    const Variable x = scale(leaf, 1), one = adding(x, added), other = scale(x, 3);
    CHECK(sums_in({one, other}) == 1);  // that of the leaf
    CHECK(added);
    gradient_is(4);
  }
  SECTION("not the first one") {
    const Variable x = scale(leaf, 1), other = scale(x, 3), one = adding(x, added);
    CHECK(sums_in({one, other}) == 2);
    CHECK_FALSE(added);
    gradient_is(4);
  }
  SECTION("not to a leaf's, which has a target of its own") {
    const Variable one = adding(leaf, added), other = scale(leaf, 3);
    sums_in({one, other});
    CHECK_FALSE(added);
    gradient_is(4);
  }
  SECTION("not to a tensor that others hold") {
    const Variable x = scale(leaf, 1), z = scale(leaf, 2), one = adding(x, added);
    sums_in({one, add(x, z)});  // one tensor is the gradient of both
    CHECK_FALSE(added);
    gradient_is(4);
  }
  CHECK_THROWS(gradient_sum_of_input(0));
}
