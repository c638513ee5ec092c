#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "models/module.h"

namespace moh::test {

/// Compares the gradients of every element of `parameters`, float64 leaves, with central differences. `loss`
/// computes a scalar from their current values, always in the same way.
inline void check_parameter_gradients(const std::vector<NamedParameter>& parameters,
                                      const std::function<Variable()>& loss) {
  constexpr double kStep = 1e-5;
  for (const NamedParameter& p : parameters) Variable(p.variable).zero_grad();
  loss().backward();
  for (const NamedParameter& p : parameters) {
    const Tensor grad = p.variable.grad();
    for (std::int64_t i = 0; i < p.variable.numel(); ++i) {
      double& value = p.variable.value().data<double>()[i];
      const double kept = value;
      value = kept + kStep;
      const double above = loss().value().item();
      value = kept - kStep;
      const double below = loss().value().item();
      value = kept;
      INFO(p.name << "[" << i << "]");
      CHECK((grad.defined() ? grad.data<double>()[i] : 0.0) ==
            Approx((above - below) / (2 * kStep)).epsilon(1e-5).margin(1e-7));
    }
  }
}

}  // namespace moh::test
