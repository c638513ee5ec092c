#include "autograd/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"

namespace moh {

namespace {

using Function = std::function<std::vector<Variable>(const std::vector<Variable>&)>;

std::vector<Variable> leaves_of(const std::vector<Tensor>& inputs) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) {
    if (!input.defined()) {
      leaves.emplace_back();
      continue;
    }
    if (is_floating(input.dtype()) && input.dtype() != DType::kFloat64) {
      throw DTypeError(error_message("gradcheck", "input", "float64", dtype_name(input.dtype())));
    }
    leaves.emplace_back(input, is_floating(input.dtype()));
  }
  return leaves;
}

/// Random cotangents for the outputs that carry a gradient; undefined for the rest.
std::vector<Tensor> cotangents_for(const std::vector<Variable>& outputs, std::uint64_t seed) {
  std::vector<Tensor> cotangents(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    cotangents[i] = empty(outputs[i].shape(), outputs[i].dtype());
    fill_normal(cotangents[i], {seed, i}, 0.0, 1.0);
  }
  return cotangents;
}

double loss_of(const Function& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& cotangents) {
  const NoGrad no_grad;
  std::vector<Variable> constants;
  for (const Tensor& input : inputs) constants.push_back(input.defined() ? Variable(input) : Variable());
  const std::vector<Variable> outputs = f(constants);
  double loss = 0.0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!cotangents[i].defined()) continue;
    const auto y = outputs[i].value().span<double>();
    const auto c = cotangents[i].span<double>();
    for (std::size_t j = 0; j < y.size(); ++j) loss += y[j] * c[j];
  }
  return loss;
}

/// The elements first, first + stride, ... of an input, each times 1 or -1.
struct Direction {
  std::span<double> elements;
  std::size_t first, stride;
  RandomKey signs;

  double sign(std::size_t element) const {
    return stride == elements.size() || random_below(signs, element, 2) == 0 ? 1.0 : -1.0;
  }
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t i = first; i < elements.size(); i += stride) visit(i, sign(i));
  }
};

double central_difference(const Function& f, const std::vector<Tensor>& inputs,
                          const std::vector<Tensor>& cotangents, const Direction& direction, double step) {
  std::vector<double> values;
  direction.for_each([&](std::size_t i, double) { values.push_back(direction.elements[i]); });
  const auto move_by = [&](double distance) {
    std::size_t at = 0;
    direction.for_each(
        [&](std::size_t i, double sign) { direction.elements[i] = values[at++] + sign * distance; });
  };
  move_by(step);
  const double above = loss_of(f, inputs, cotangents);
  move_by(-step);
  const double below = loss_of(f, inputs, cotangents);
  move_by(0);
  return (above - below) / (2.0 * step);
}

/// Both derivatives along a direction, which is named by its first element and has so many.
struct Comparison {
  std::size_t input, first, elements;
  double analytic, numeric;
  double error() const { return std::abs(analytic - numeric); }
};

std::vector<Comparison> compare(const Function& f, const std::vector<Tensor>& inputs,
                                const std::vector<Variable>& leaves, const std::vector<Tensor>& cotangents,
                                const GradCheckOptions& options) {
  std::vector<Comparison> comparisons;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!leaves[i].requires_grad()) continue;
    const Tensor& grad = leaves[i].grad();
    const auto elements = inputs[i].span<double>();
    const std::size_t stride =
        options.directions == 0 ? elements.size() : std::min(options.directions, elements.size());
    for (std::size_t first = 0; first < stride; ++first) {
      const Direction direction{elements, first, stride, {options.seed, inputs.size() + i}};
      Comparison comparison{.input = i, .first = first, .elements = 0, .analytic = 0, .numeric = 0};
      direction.for_each([&](std::size_t j, double sign) {
        comparison.analytic += grad.defined() ? sign * grad.data<double>()[j] : 0.0;
        ++comparison.elements;
      });
      comparison.numeric = central_difference(f, inputs, cotangents, direction, options.step);
      comparisons.push_back(comparison);
    }
  }
  return comparisons;
}

std::vector<std::string> op_names_of(const std::vector<Variable>& outputs) {
  std::set<std::string> names;
  for (const Variable& output : outputs) {
    for (std::string& name : graph_op_names(output)) names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

void judge(GradCheckReport& report, const std::vector<Comparison>& comparisons,
           const GradCheckOptions& options) {
  double scale = 0.0;
  for (const Comparison& c : comparisons)
    scale = std::max({scale, std::abs(c.analytic), std::abs(c.numeric)});
  const auto excess = [&](const Comparison& c) {
    const double allowed = options.relative * std::max(std::abs(c.analytic), std::abs(c.numeric)) +
                           options.absolute * std::max(scale, 1e-3);
    // A NaN on either side must not compare as "no excess".
    return std::isfinite(c.error()) ? c.error() / allowed : HUGE_VAL;
  };
  const auto worst = std::max_element(comparisons.begin(), comparisons.end(),
                                      [&](const auto& a, const auto& b) { return excess(a) < excess(b); });
  if (worst == comparisons.end()) {
    report.message = "gradcheck: nothing to compare: no input has a gradient";
    return;
  }
  std::ostringstream text;
  text.precision(12);
  text << "gradcheck: input " << worst->input << ", element " << worst->first;
  if (worst->elements > 1) text << " and the " << worst->elements - 1 << " of its direction";
  text << ": backward gives " << worst->analytic << ", central difference " << worst->numeric << " ("
       << excess(*worst) << " x the tolerance)";
  report.message = text.str();
  report.passed = excess(*worst) <= 1.0;
}

}  // namespace

GradCheckReport gradcheck(const Function& f, const std::vector<Tensor>& inputs,
                          const GradCheckOptions& options) {
  std::vector<Tensor> own;  // central differences write into them
  for (const Tensor& input : inputs) own.push_back(input.defined() ? input.clone() : Tensor());
  const std::vector<Variable> leaves = leaves_of(own);
  const std::vector<Variable> outputs = f(leaves);

  GradCheckReport report;
  report.op_names = op_names_of(outputs);
  const std::vector<Tensor> cotangents = cotangents_for(outputs, options.seed);
  std::vector<Variable> reached;
  std::vector<Tensor> seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!cotangents[i].defined()) continue;
    reached.push_back(outputs[i]);
    seeds.push_back(cotangents[i]);
  }
  backward(reached, seeds);
  judge(report, compare(f, own, leaves, cotangents, options), options);
  return report;
}

}  // namespace moh
