#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// Step and tolerances of gradcheck; the defaults suit float64 inputs of magnitude about 1.
struct GradCheckOptions {
  double step = 1e-5;      ///< h of the central difference (L(x + h) - L(x - h)) / 2h
  double relative = 1e-6;  ///< tolerance relative to the larger of the two derivatives
  double absolute = 1e-7;  ///< tolerance relative to the largest derivative of any element
  std::uint64_t seed = 1;  ///< of the random cotangents and signs
  /// At most this many differences an input, each along a sum of elements with random signs; every element is
  /// in one of them, neighbours in different ones. 0: each element has a difference of its own, whose time
  /// grows like the square of the elements.
  std::size_t directions = 0;
};

/// The result of gradcheck.
struct GradCheckReport {
  bool passed = false;
  std::string message;                ///< the difference with the largest error, or why nothing was compared
  std::vector<std::string> op_names;  ///< ops in the graph that was checked
};

/// Compares the gradients of L = sum_o <c_o, f_o(inputs)> with central differences in float64. The cotangents
/// c_o are random: with the plain sum of outputs, errors of a backward pass might cancel (softmax rows sum to
/// 1). Inputs that are not floating are constants. `f` must be a pure function of its arguments. Throws
/// DTypeError for a floating input that is not float64.
GradCheckReport gradcheck(const std::function<std::vector<Variable>(const std::vector<Variable>&)>& f,
                          const std::vector<Tensor>& inputs, const GradCheckOptions& options = {});

}  // namespace moh
