#include "models/late_parameters.h"

#include <utility>

#include "autograd/between_ops.h"

namespace moh {

namespace {
thread_local bool is_on = false;
}  // namespace

LateParameters::LateParameters() : outer_(std::exchange(is_on, true)) {}

LateParameters::~LateParameters() {
  is_on = outer_;
}

bool LateParameters::on() {
  return is_on;
}

void fill_each(const std::vector<NamedParameter>& parameters,
               FunctionRef<void(const NamedParameter& parameter)> fill) {
  for (const NamedParameter& parameter : parameters) {
    fill(parameter);
    BetweenOps::reached();
  }
}

}  // namespace moh
