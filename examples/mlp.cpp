// A multi-layer perceptron on tensors and autograd alone: three spirals of points in the plane, told apart by
// one hidden layer. Its gradients are compared with finite differences, then gradient descent trains it.
//
//     mlp

#include <moh/moh.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

using namespace moh;

constexpr std::int64_t kClasses = 3, kHidden = 64, kPerClass = 100, kPoints = kClasses * kPerClass;

struct Points {
  Tensor at;      // [points, 2]
  Tensor labels;  // [points], the spiral of each
};

/// Each spiral makes two thirds of a turn, from the middle outwards, with some noise in the angle.
Points spirals() {
  Points points{empty({kPoints, 2}, DType::kFloat32), empty({kPoints}, DType::kInt64)};
  const auto at = points.at.span<float>();
  const auto labels = points.labels.span<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::size_t label = i % kClasses;
    const double radius = static_cast<double>(i / kClasses) / kPerClass;
    const double noise = 0.2 * random_normal({.seed = 1}, i);
    const double angle = 4.0 * (static_cast<double>(label) + radius) + noise;
    at[2 * i] = static_cast<float>(radius * std::sin(angle));
    at[2 * i + 1] = static_cast<float>(radius * std::cos(angle));
    labels[i] = static_cast<std::int64_t>(label);
  }
  return points;
}

/// Weights and biases of the two layers, leaves that ask for a gradient. A weight is [outputs, inputs].
std::vector<Variable> initial_parameters() {
  const auto normal = [](const Shape& shape, std::uint64_t stream) {
    Tensor values = empty(shape, DType::kFloat32);
    fill_normal(values, {.seed = 2, .stream = stream}, 0, 0.5);
    return Variable(values, /*requires_grad=*/true);
  };
  return {normal({kHidden, 2}, 0), normal({kHidden}, 1), normal({kClasses, kHidden}, 2),
          normal({kClasses}, 3)};
}

Variable logits(const std::vector<Variable>& p, const Tensor& points) {
  const Variable hidden = gelu(linear(Variable(points), p[0], p[1]), GeluForm::kTanh);
  return linear(hidden, p[2], p[3]);
}

/// The mean over the points.
Variable loss_of(const std::vector<Variable>& parameters, const Points& points) {
  return cross_entropy(logits(parameters, points.at), points.labels, {.normalizer = kPoints});
}

/// Autograd against central differences, in float64, for every element of every parameter.
GradCheckReport check_gradients(const std::vector<Variable>& parameters, const Points& points) {
  const Points exact{points.at.to(DType::kFloat64), points.labels};
  std::vector<Tensor> values;
  for (const Variable& parameter : parameters) values.push_back(parameter.value().to(DType::kFloat64));
  return gradcheck([&](const std::vector<Variable>& p) { return std::vector{loss_of(p, exact)}; }, values);
}

/// p -= rate dL/dp, in place.
void descend(std::vector<Variable>& parameters, double rate) {
  for (Variable& parameter : parameters) {
    parameter.grad().scale(-rate);
    parameter.value().add(parameter.grad());
    parameter.zero_grad();
  }
}

double accuracy(const std::vector<Variable>& parameters, const Points& points) {
  const NoGrad no_grad;
  const Tensor found = top1(logits(parameters, points.at).value());
  int right = 0;
  for (std::int64_t i = 0; i < kPoints; ++i)
    right += found.select(i).item() == points.labels.select(i).item();
  return static_cast<double>(right) / kPoints;
}

}  // namespace

int main() {
  const Points points = spirals();
  std::vector<Variable> parameters = initial_parameters();

  const GradCheckReport check = check_gradients(parameters, points);
  std::printf("gradients %s: %s\n", check.passed ? "agree" : "DIFFER", check.message.c_str());

  for (int step = 0; step <= 1500; ++step) {
    const Variable loss = loss_of(parameters, points);
    if (step % 300 == 0) std::printf("step %4d  loss %.4f\n", step, loss.value().item());
    loss.backward();
    descend(parameters, 1.0);
  }
  std::printf("accuracy %.3f\n", accuracy(parameters, points));
  return check.passed ? 0 : 1;
}
