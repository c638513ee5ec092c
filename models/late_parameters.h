#pragma once

#include <vector>

#include "core/function_ref.h"
#include "models/module.h"

namespace moh {

/// While it lives, parameters of modules that this thread makes take no memory before they are read or
/// written for the first time (core/late_tensor.h): of a model that is larger than the memory, for somebody
/// who then has it in parts.
class LateParameters {
 public:
  LateParameters();
  ~LateParameters();
  LateParameters(const LateParameters&) = delete;
  LateParameters& operator=(const LateParameters&) = delete;

  /// Whether there is one in this thread.
  static bool on();

 private:
  bool outer_;
};

/// Calls `fill` for each parameter. After each, memory that is released between ops may be (BetweenOps).
void fill_each(const std::vector<NamedParameter>& parameters,
               FunctionRef<void(const NamedParameter& parameter)> fill);

}  // namespace moh
