#include "train/trainer/run/parameter_values.h"

namespace moh {

void WholeDeviceValues::prepare_loads() {
  gather_.finish();
  current_ = true;
}

void WholeDeviceValues::run_pass(bool is_first, FunctionRef<void()> pass) {
  if (!is_first || current_) return pass();
  gather_.mark_stale();
  gather_.start();
  pass();
  gather_.finish();
}

void WholeDeviceValues::after_passes() {
  gather_.mark_current();
  current_ = false;
}

}  // namespace moh
