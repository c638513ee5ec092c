#include "ops/optim/adamw.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr AdamWStep kStep{
    .learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .grad_scale = 0.5};

AdamWParameter adamw_parameter(const Shape& shape, DType dtype, double weight_decay, std::uint64_t seed) {
  const DType state = accumulate_dtype(dtype);
  AdamWParameter p{.value = normal(shape, seed).to(dtype),
                   .grad = empty(shape, state),
                   .exp_avg = zeros(shape, state),
                   .exp_avg_sq = zeros(shape, state),
                   .weight_decay = weight_decay};
  if (dtype == DType::kBFloat16) p.master = p.value.to(DType::kFloat32);
  return p;
}

std::vector<AdamWParameter> some_parameters(DType dtype) {
  std::vector<AdamWParameter> parameters;
  std::uint64_t seed = 0;
  // Empty, scalar, one past a vector, and more than a chunk.
  for (const Shape& shape : {Shape{0}, Shape{}, Shape{17}, Shape{3, 11}, Shape{130, 131}}) {
    parameters.push_back(adamw_parameter(shape, dtype, seed % 2 == 0 ? 0.1 : 0.0, seed));
    parameters.back().learning_rate_scale = seed > 2 ? 0.25 : 1;
    ++seed;
  }
  // By Lion, in the same list.
  for (const Shape& shape : {Shape{19}, Shape{130, 131}}) {
    parameters.push_back(adamw_parameter(shape, dtype, 0.1, ++seed));
    parameters.back().exp_avg_sq = Tensor();
  }
  return parameters;
}

void draw_grads(const std::vector<AdamWParameter>& parameters, std::int64_t step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto seed = static_cast<std::uint64_t>(step) * 100 + i;
    parameters[i].grad.copy_from(normal(parameters[i].grad.shape(), seed));
  }
}

/// AdamW and Lion in plain float64 loops, one parameter at a time.
struct AdamWReference {
  explicit AdamWReference(const AdamWParameter& p)
      : value((p.master.defined() ? p.master : p.value).to(DType::kFloat64).clone()),
        m(zeros_like(value)),
        v(zeros_like(value)) {}

  void update(const Tensor& grad, const AdamWParameter& of, const AdamWStep& s) {
    const double rate = of.learning_rate_scale * s.learning_rate;
    const Tensor wide = grad.to(DType::kFloat64);
    for (std::int64_t i = 0; i < value.numel(); ++i) {
      const double g = wide.data<double>()[i] * s.grad_scale;
      double& p = value.data<double>()[i];
      double& mi = m.data<double>()[i];
      double& vi = v.data<double>()[i];
      p *= 1.0 - rate * of.weight_decay;
      if (of.rule() == UpdateRule::kLion) {
        const double direction = s.beta1 * mi + (1.0 - s.beta1) * g;
        p -= rate * (direction > 0 ? 1.0 : direction < 0 ? -1.0 : 0.0);
        mi = s.beta2 * mi + (1.0 - s.beta2) * g;
        continue;
      }
      mi = s.beta1 * mi + (1.0 - s.beta1) * g;
      vi = s.beta2 * vi + (1.0 - s.beta2) * g * g;
      const auto k = static_cast<double>(s.step);
      p -= rate / (1.0 - std::pow(s.beta1, k)) * mi /
           (std::sqrt(vi) / std::sqrt(1.0 - std::pow(s.beta2, k)) + s.epsilon);
    }
  }

  Tensor value, m, v;
};

double worst_of_adamw(const Tensor& found, const Tensor& expected) {
  const Tensor wide = found.to(DType::kFloat64);
  double worst = 0.0;
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    worst = std::max(worst, std::abs(wide.data<double>()[i] - expected.data<double>()[i]));
  }
  return worst;
}

void run_steps(const std::vector<AdamWParameter>& parameters, std::vector<AdamWReference>& references) {
  AdamWStep step = kStep;
  for (step.step = 1; step.step <= 3; ++step.step) {
    draw_grads(parameters, step.step);
    for (std::size_t i = 0; i < references.size(); ++i) {
      references[i].update(parameters[i].grad, parameters[i], step);
    }
    adamw(parameters, step);
  }
}

}  // namespace

TEST_CASE("ops: adamw follows its formula", "[every_isa]") {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      INFO(cpu_isa_name(isa) << " " << dtype_name(dtype));
      const std::vector<AdamWParameter> parameters = some_parameters(dtype);
      std::vector<AdamWReference> references(parameters.begin(), parameters.end());
      run_steps(parameters, references);
      const double tolerance = dtype == DType::kFloat64 ? 1e-14 : 1e-6;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const AdamWParameter& p = parameters[i];
        CHECK(worst_of_adamw(p.master.defined() ? p.master : p.value, references[i].value) < tolerance);
        CHECK(worst_of_adamw(p.exp_avg, references[i].m) < tolerance);
        if (p.exp_avg_sq.defined()) CHECK(worst_of_adamw(p.exp_avg_sq, references[i].v) < tolerance);
        if (p.master.defined()) {
          const Tensor rounded = p.master.to(DType::kBFloat16);
          CHECK(std::memcmp(p.value.raw(), rounded.raw(), rounded.bytes()) == 0);
        }
      }
    }
  }
}

TEST_CASE(
    "ops: lion moves a weight by the rate, whatever the size of its gradient, and not at all by a zero") {
  AdamWParameter p = adamw_parameter({3}, DType::kFloat32, 0.0, 1);
  p.exp_avg_sq = Tensor();
  p.value.fill(1);
  p.grad.copy_from(tensor_of<float>({3}, {1e-20F, -1e20F, 0}));
  adamw({&p, 1}, {.learning_rate = 0.25});
  CHECK(std::ranges::equal(p.value.span<float>(), std::vector<float>{0.75F, 1.25F, 1}));
}

TEST_CASE("ops: adamw has the same bits with any number of threads, and as one parameter at a time") {
  const auto after = [](int threads, bool together) {
    set_num_threads(threads);
    const std::vector<AdamWParameter> parameters = some_parameters(DType::kFloat32);
    draw_grads(parameters, 1);
    if (together) adamw(parameters, kStep);
    for (std::size_t i = 0; i < parameters.size() && !together; ++i) adamw({&parameters[i], 1}, kStep);
    return parameters.back().value;
  };
  const int threads = num_threads();
  const Tensor one = after(1, true), three = after(3, true), single = after(1, false);
  set_num_threads(threads);
  CHECK(std::memcmp(one.raw(), three.raw(), one.bytes()) == 0);
  CHECK(std::memcmp(one.raw(), single.raw(), one.bytes()) == 0);
}

TEST_CASE("ops: adamw takes parameters of several dtypes in one list") {
  const std::vector<AdamWParameter> parameters = {adamw_parameter({9}, DType::kBFloat16, 0.1, 1),
                                                  adamw_parameter({5}, DType::kFloat32, 0.1, 2)};
  std::vector<AdamWReference> references(parameters.begin(), parameters.end());
  run_steps(parameters, references);
  CHECK(worst_of_adamw(parameters[0].master, references[0].value) < 1e-6);
  CHECK(worst_of_adamw(parameters[1].value, references[1].value) < 1e-6);
}

TEST_CASE("ops: adamw's state begins at zero and the values") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    INFO(dtype_name(dtype));
    AdamWParameter p = adamw_parameter({300, 200}, dtype, 0.1, 1);
    for (Tensor* state : {&p.exp_avg, &p.exp_avg_sq, &p.master}) {
      if (state->defined()) state->fill(7);
    }
    p.grad = Tensor();
    reset_adamw_state({&p, 1});
    for (const Tensor& moment : {p.exp_avg, p.exp_avg_sq})
      CHECK(worst_of_adamw(moment, zeros(moment.shape(), DType::kFloat64)) == 0);
    if (p.master.defined()) CHECK(worst_of_adamw(p.master, p.value.to(DType::kFloat64)) == 0);
  }
}

TEST_CASE("ops: adamw refuses what does not fit, before it changes anything") {
  std::vector<AdamWParameter> list = {adamw_parameter({3, 2}, DType::kFloat32, 0.1, 1),
                                      adamw_parameter({4}, DType::kFloat32, 0.1, 2)};
  draw_grads(list, 1);
  const Tensor before = list[0].value.clone();
  const auto with = [&](auto change) {
    std::vector<AdamWParameter> changed = list;
    change(changed[1]);
    return changed;
  };
  CHECK_THROWS_WITH(adamw(with([](auto& p) { p.grad = zeros({5}, DType::kFloat32); }), kStep),
                    "adamw: parameter 1: grad: expected [4], found [5]");
  CHECK_THROWS_WITH(adamw(with([](auto& p) { p.grad = Tensor(); }), kStep),
                    "adamw: parameter 1: grad: expected a tensor, found none");
  CHECK_THROWS_WITH(adamw(with([](auto& p) { p.exp_avg = p.exp_avg.to(DType::kBFloat16); }), kStep),
                    "adamw: parameter 1: exp_avg: expected float32, found bfloat16");
  CHECK_THROWS_AS(adamw(with([](auto& p) { p.exp_avg = Tensor(); }), kStep), ValueError);
  CHECK_THROWS_AS(adamw(with([](auto& p) { p.value = Tensor(); }), kStep), ValueError);
  CHECK_THROWS_AS(adamw(with([](auto& p) { p.value = zeros({4}, DType::kInt32); }), kStep), DTypeError);
  CHECK_THROWS_AS(adamw(with([](auto& p) { p.master = p.value; }), kStep), ValueError);
  CHECK_THROWS_AS(adamw(with([](auto& p) { p.value = p.value.to(DType::kBFloat16); }), kStep), ValueError);
  const auto step_with = [](auto change) {
    AdamWStep step = kStep;
    change(step);
    return step;
  };
  CHECK_THROWS_WITH(adamw(list, step_with([](auto& s) { s.step = 0; })),
                    "adamw: step: expected 1 or more, found 0");
  CHECK_THROWS_AS(adamw(list, step_with([](auto& s) { s.beta1 = 1.0; })), ValueError);
  CHECK_THROWS_AS(adamw(list, step_with([](auto& s) { s.beta2 = -0.1; })), ValueError);
  CHECK_THROWS_AS(adamw(list, step_with([](auto& s) { s.epsilon = 0.0; })), ValueError);
  CHECK_THROWS_AS(adamw(list, step_with([](auto& s) { s.learning_rate = NAN; })), ValueError);
  CHECK_THROWS_AS(adamw(list, step_with([](auto& s) { s.grad_scale = INFINITY; })), ValueError);
  CHECK(std::memcmp(before.raw(), list[0].value.raw(), before.bytes()) == 0);
}
