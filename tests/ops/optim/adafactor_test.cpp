#include "ops/optim/adafactor.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

AdamWParameter parameter_of(const Shape& shape, DType dtype) {
  const DType state = accumulate_dtype(dtype);
  const AdafactorShapes shapes = adafactor_shapes(shape);
  AdamWParameter p{.value = normal(shape, 1).to(dtype),
                   .grad = empty(shape, state),
                   .exp_avg_sq = zeros(shapes.exp_avg_sq, state),
                   .weight_decay = 0.1,
                   .learning_rate_scale = 0.5,
                   .exp_avg_sq_row = zeros(shapes.exp_avg_sq_row, state)};
  if (dtype == DType::kBFloat16) p.master = p.value.to(DType::kFloat32);
  return p;
}

/// Adafactor in plain float64 loops.
struct Reference {
  explicit Reference(const AdamWParameter& p)
      : factored(p.value.rank() == 2),
        rows(factored ? p.value.dim(0) : 1),
        columns(p.value.numel() / std::max<std::int64_t>(rows, 1)),
        row(static_cast<std::size_t>(rows)),
        column(static_cast<std::size_t>(columns)) {
    const Tensor wide = (p.master.defined() ? p.master : p.value).to(DType::kFloat64);
    value.assign(wide.data<double>(), wide.data<double>() + wide.numel());
  }

  void update(const AdamWParameter& of, const AdamWStep& step) {
    const Tensor grad = of.grad.to(DType::kFloat64);
    const double weight = std::pow(static_cast<double>(step.step), -0.8);
    const auto g = [&](std::int64_t r, std::int64_t c) {
      return step.grad_scale * grad.data<double>()[r * columns + c];
    };
    double mean_row = 0, squares = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      double mean = 1e-30;
      for (std::int64_t c = 0; c < columns; ++c) mean += g(r, c) * g(r, c) / static_cast<double>(columns);
      row[static_cast<std::size_t>(r)] += weight * (mean - row[static_cast<std::size_t>(r)]);
      mean_row += row[static_cast<std::size_t>(r)] / static_cast<double>(rows);
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      double mean = 1e-30;
      for (std::int64_t r = 0; r < rows; ++r) mean += g(r, c) * g(r, c) / static_cast<double>(rows);
      column[static_cast<std::size_t>(c)] += weight * (mean - column[static_cast<std::size_t>(c)]);
    }
    std::vector<double> u;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const double of_row = factored ? row[static_cast<std::size_t>(r)] / mean_row : 1;
        u.push_back(g(r, c) / std::sqrt(of_row * column[static_cast<std::size_t>(c)]));
        squares += u.back() * u.back();
      }
    }
    const double rms = std::sqrt(squares / static_cast<double>(u.size()));
    clipped |= rms > 1;
    const double rate = of.learning_rate_scale * step.learning_rate;
    for (std::size_t i = 0; i < u.size(); ++i)
      value[i] = value[i] * (1 - rate * of.weight_decay) - rate * u[i] / std::max(1.0, rms);
  }

  bool factored;
  std::int64_t rows, columns;
  std::vector<double> row, column, value;
  bool clipped = false;
};

double worst_difference(const Tensor& found, const std::vector<double>& expected) {
  const Tensor wide = found.to(DType::kFloat64);
  REQUIRE(wide.numel() == static_cast<std::int64_t>(expected.size()));
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(wide.data<double>()[i] - expected[i]));
  return worst;
}

AdamWStep step_number(std::int64_t number) {
  return {.step = number, .learning_rate = 0.02, .grad_scale = 0.5};
}

void set_gradient(const AdamWParameter& p, std::int64_t step) {
  p.grad.copy_from(normal(p.value.shape(), 10 + static_cast<std::uint64_t>(step)));
  if (step == 2) p.grad.scale(9);  // which is clipped
}

}  // namespace

TEST_CASE("ops: adafactor follows its formula", "[every_isa]") {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      for (const Shape& shape : {Shape{1, 1}, Shape{1, 9}, Shape{7, 3}, Shape{40, 24}, Shape{3, 300},
                                 Shape{5}, Shape{17000}, Shape{2, 3, 4}}) {
        INFO(cpu_isa_name(isa) << " " << dtype_name(dtype) << " " << to_string(shape));
        const AdamWParameter p = parameter_of(shape, dtype);
        Reference reference(p);
        for (std::int64_t step = 1; step <= 3; ++step) {
          set_gradient(p, step);
          reference.update(p, step_number(step));
          adamw({&p, 1}, step_number(step));
        }
        const double tolerance = dtype == DType::kFloat64 ? 1e-12 : 2e-6;
        CHECK(worst_difference(p.master.defined() ? p.master : p.value, reference.value) < tolerance);
        CHECK(worst_difference(p.exp_avg_sq, reference.column) < 20 * tolerance);
        if (shape.rank() == 2) CHECK(worst_difference(p.exp_avg_sq_row, reference.row) < 20 * tolerance);
        if (dtype == DType::kBFloat16) CHECK(same_bits(p.value, p.master.to(dtype)));
        CHECK((reference.clipped || shape.numel() == 1));
      }
    }
  }
}

TEST_CASE("ops: adafactor has the same bits with any number of threads") {
  const int before = num_threads();
  std::vector<Tensor> values;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    const AdamWParameter p = parameter_of({300, 700}, DType::kFloat32);
    set_gradient(p, 2);
    adamw({&p, 1}, step_number(1));
    values.push_back(p.value);
    CHECK(same_bits(values.front(), p.value));
  }
  set_num_threads(before);
}

TEST_CASE("ops: the state of adafactor has its own shapes, and begins with zeros") {
  AdamWParameter p = parameter_of({6, 4}, DType::kFloat32);
  p.exp_avg_sq.fill(3);
  p.exp_avg_sq_row.fill(3);
  reset_adamw_state({&p, 1});
  CHECK(same_bits(p.exp_avg_sq, zeros({4}, DType::kFloat32)));
  CHECK(same_bits(p.exp_avg_sq_row, zeros({6}, DType::kFloat32)));
  p.exp_avg_sq_row = zeros({4}, DType::kFloat32);
  CHECK_THROWS_WITH(adamw({&p, 1}, step_number(1)),
                    "adamw: parameter 0: exp_avg_sq_row: expected [6], found [4]");
  p.exp_avg_sq_row = {};
  CHECK_THROWS_WITH(adamw({&p, 1}, step_number(1)),
                    "adamw: parameter 0: exp_avg_sq_row: expected a tensor, found none");
}
