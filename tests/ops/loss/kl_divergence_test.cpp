#include "ops/loss/kl_divergence.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "autograd/node.h"
#include "core/allocator.h"
#include "core/error.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/cross_entropy.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Targets of which about every third is ignored.
Tensor some_divergence_targets(const Shape& shape, std::int64_t bound) {
  Tensor targets = empty(shape, DType::kInt64);
  for (std::int64_t i = 0; i < targets.numel(); ++i)
    targets.data<std::int64_t>()[i] = i % 3 == 1 ? kIgnoredTarget : i * 7 % bound;
  return targets;
}

/// log softmax(row / temperature).
std::vector<double> log_softmax(const double* row, std::int64_t width, double temperature) {
  double top = row[0], sum = 0;
  for (std::int64_t j = 0; j < width; ++j) top = std::max(top, row[j]);
  for (std::int64_t j = 0; j < width; ++j) sum += std::exp((row[j] - top) / temperature);
  std::vector<double> logs;
  for (std::int64_t j = 0; j < width; ++j) logs.push_back((row[j] - top) / temperature - std::log(sum));
  return logs;
}

std::vector<Tensor> kl_divergence_reference(const std::vector<Tensor>& in, const Tensor& teacher,
                                            const Tensor& targets, const KlDivergenceOptions& o) {
  const std::int64_t width = in[0].dim(-1);
  double total = 0;
  for (std::int64_t i = 0; i < (width > 0 ? in[0].numel() / width : 0); ++i) {
    if (targets.defined() && targets.data<std::int64_t>()[i] == kIgnoredTarget) continue;
    const std::vector<double> q = log_softmax(in[0].data<double>() + i * width, width, o.temperature),
                              p = log_softmax(teacher.data<double>() + i * width, width, o.temperature);
    for (std::size_t j = 0; j < p.size(); ++j) total += std::exp(p[j]) * (p[j] - q[j]);
  }
  return {full({}, o.temperature * o.temperature * total / o.normalizer.divisor("", kCpu).value,
               DType::kFloat64)};
}

// PyTorch 2.9.1 in float64, with T = 2 and log-softmaxes ls, lt of s / T, t / T, over rows 0 and 2 of the
// case below: T * T * kl_div(ls, lt, reduction="sum", log_target=True) / 2, and its gradient.
constexpr double kGoldenLoss = 0.7748526371661595;
constexpr double kGoldenGradient[] = {
    -0.0458497640376585, -0.11326042479011818, 0.34517542039727067, -0.18606523156949392, 0.0, 0.0, 0.0, 0.0,
    0.10228243283010291, -0.07155353805791398, 0.05426857230955781, -0.08499746708174671};

std::vector<float> divergence_values_of(const Tensor& x) {
  const auto span = x.span<float>();
  return {span.begin(), span.end()};
}

}  // namespace

OP_CASES(kl_divergence) {
  struct Sizes {
    Shape targets;
    std::int64_t width;
  };
  OpCases cases;
  for (const Sizes& s :
       {Sizes{{}, 3}, Sizes{{1}, 1}, Sizes{{0}, 4}, Sizes{{5}, 7}, Sizes{{2, 3}, 33}, Sizes{{2}, 1057}}) {
    std::vector<std::int64_t> extents(s.targets.extents().begin(), s.targets.extents().end());
    extents.push_back(s.width);
    const Shape shape{std::span<const std::int64_t>(extents)};
    const Tensor teacher = uniform(shape, -4.0, 4.0, 5);
    for (const double temperature : {1.0, 2.5}) {
      const Tensor targets = temperature > 1 ? some_divergence_targets(s.targets, s.width) : Tensor();
      const KlDivergenceOptions options{.temperature = temperature, .normalizer = 3.0, .keep_teacher = true};
      cases.push_back({.name = to_string(shape) + (temperature > 1 ? " softened, some ignored" : ""),
                       .inputs = {uniform(shape, -4.0, 4.0)},
                       .run =
                           [=](const Inputs& in) {
                             const Tensor theirs = teacher.to(in[0].dtype()).to(in[0].device());
                             const Tensor ids = targets.defined() ? targets.to(in[0].device()) : Tensor();
                             return Outputs{kl_divergence(in[0], theirs, ids, options)};
                           },
                       .reference =
                           [=](const std::vector<Tensor>& in) {
                             return kl_divergence_reference(in, teacher, targets, options);
                           },
                       .gradient_scale = 0.1});  // the two softmaxes cancel
    }
  }
  return cases;
}

TEST_CASE("ops: kl_divergence agrees with torch's kl_div, value and gradient") {
  const Tensor s = tensor_of<double>({3, 4}, {0.5, -1.25, 2, 0.75, 9, 9, 9, 9, -0.5, 1.5, 0.25, -2});
  const Tensor t = tensor_of<double>({3, 4}, {1, 0.5, -0.75, 2, 0, 1, 2, 3, -1.5, 2.5, 0.5, 0.125});
  const Tensor targets = tensor_of<std::int64_t>({3}, {0, kIgnoredTarget, 3});
  const Variable logits(s, true);
  const Variable loss = kl_divergence(logits, t.clone(), targets, {.temperature = 2, .normalizer = 2});
  CHECK(loss.value().item() == Approx(kGoldenLoss).epsilon(1e-12));
  loss.backward();
  for (std::int64_t i = 0; i < s.numel(); ++i)
    CHECK(logits.grad().data<double>()[i] == Approx(kGoldenGradient[i]).margin(1e-14));
}

TEST_CASE("ops: kl_divergence is 0, with a gradient of 0, where student and teacher are one") {
  const Tensor logits = normal({6, 300}).to(DType::kFloat32);
  const Variable x(logits, true);
  const Variable loss = kl_divergence(x, logits.clone(), Tensor(), {.temperature = 3});
  CHECK(std::abs(loss.value().item()) < 1e-6);
  loss.backward();
  for (const float g : divergence_values_of(x.grad()))
    CHECK(std::abs(g) < 1e-8F);  // one product of two is fused
}

TEST_CASE(
    "ops: kl_divergence makes its gradient in the teacher's memory, before the loss that takes the logits") {
  constexpr std::int64_t kRows = 256, kWidth = 1024, kBytes = kRows * kWidth * 4;
  const Tensor values = normal({kRows, kWidth}).to(DType::kFloat32),
               theirs = normal({kRows, kWidth}, 3).to(DType::kFloat32), ids = zeros({kRows}, DType::kInt64);
  const Variable leaf(values, true), kept(values, true);
  add(cross_entropy(kept, ids), kl_divergence(kept, theirs, ids, {.keep_teacher = true})).backward();
  const std::vector<float> expected = divergence_values_of(kept.grad());
  {
    const Variable x = scale(leaf, 1.0);
    Tensor teacher = theirs.clone();
    CpuAllocator::instance().reset_peaks();
    const std::int64_t before = CpuAllocator::instance().stats().total.current_bytes;
    const Variable loss = cross_entropy(x, ids);
    const Variable divergence = kl_divergence(x, teacher, ids);
    teacher = Tensor();  // nobody else needs it
    add(loss, divergence).backward();
    // scale makes one gradient of the logits' size.
    CHECK(CpuAllocator::instance().stats().total.peak_bytes - before <= kBytes + 65536);
  }
  CHECK(divergence_values_of(leaf.grad()) == expected);
}

TEST_CASE("ops: kl_divergence is right for huge and masked logits, and says what is not a number") {
  const float inf = std::numeric_limits<float>::infinity();
  const Variable x(tensor_of<float>({2, 3}, {1e30F, 1e30F, -1e30F, 0, -5e4F, 3}), true);
  const Tensor teacher = tensor_of<float>({2, 3}, {1e30F, 1e30F, -1e30F, 0, -inf, 3});
  const Variable loss = kl_divergence(x, teacher, Tensor());
  CHECK(loss.value().item() == Approx(0).margin(1e-6));
  loss.backward();
  CHECK(x.grad().all_finite());
  const Variable broken(tensor_of<float>({1, 2}, {std::nanf(""), 0}));
  CHECK(std::isnan(kl_divergence(broken, zeros({1, 2}, DType::kFloat32), Tensor()).value().item()));
  CHECK(std::isnan(
      kl_divergence(Variable(zeros({1, 2}, DType::kFloat32)), broken.value(), Tensor()).value().item()));
}

TEST_CASE("ops: kl_divergence refuses what does not fit") {
  const Variable logits(normal({2, 3}).to(DType::kFloat32));
  const Tensor teacher = zeros({2, 3}, DType::kFloat32);
  CHECK_NOTHROW(kl_divergence(logits, teacher, Tensor()));
  CHECK_THROWS_WITH(kl_divergence(logits, zeros({2, 4}, DType::kFloat32), Tensor()),
                    "kl_divergence: teacher: expected shape [2, 3] (as logits), found [2, 4]");
  CHECK_THROWS_AS(kl_divergence(logits, zeros({2, 3}, DType::kFloat64), Tensor()), DTypeError);
  CHECK_THROWS_AS(kl_divergence(logits, Tensor(), Tensor()), ValueError);
  CHECK_THROWS_AS(kl_divergence(logits, teacher, zeros({3}, DType::kInt64)), ShapeError);
  CHECK_THROWS_AS(kl_divergence(logits, teacher, full({2}, 3, DType::kInt64)), ValueError);
  CHECK_THROWS_AS(kl_divergence(logits, teacher, Tensor(), {.temperature = 0}), ValueError);
  CHECK_THROWS_AS(kl_divergence(logits, teacher, Tensor(), {.normalizer = 0}), ValueError);
}
