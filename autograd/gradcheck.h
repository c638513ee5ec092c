#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// What gradcheck is to do; the defaults suit float64 inputs of magnitude about 1.
struct GradCheckOptions {
  double step = 1e-5;      ///< half the distance of the two points of a central difference
  double relative = 1e-6;  ///< tolerance as a share of the larger of the two derivatives
  double absolute = 1e-7;  ///< tolerance as a share of the largest derivative of any element
  std::uint64_t seed = 1;  ///< of the random cotangents
};

/// What gradcheck found.
struct GradCheckReport {
  bool passed = false;
  std::string message;                ///< worst element, in words; says why when it did not pass
  std::vector<std::string> op_names;  ///< ops in the graph that was checked
};

/// Compares the gradients of L = sum_o <c_o, f_o(inputs)> with central differences, element by element, in
/// float64. The cotangents c_o are random: a sum of outputs would hide wrong backward passes whose errors
/// cancel (softmax rows sum to 1). Inputs that are not floating are constants. `f` must be a pure function of
/// its arguments.
GradCheckReport gradcheck(const std::function<std::vector<Variable>(const std::vector<Variable>&)>& f,
                          const std::vector<Tensor>& inputs, const GradCheckOptions& options = {});

}  // namespace moh
