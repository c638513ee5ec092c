#include "train/trainer/run/step_operations.h"

#include <utility>

#include "autograd/profile.h"
#include "core/device_clock.h"

namespace moh {

bool StepOperations::count(std::int64_t items, bool settled, FunctionRef<bool()> compute) {
  if (!std::exchange(settled_, settled)) forget();
  if (of_item_ > 0 || items == 0 || Profiler::current() != nullptr) return compute();
  DeviceClock no_clock([] { return 0.0; });  // operations alone: nothing waits for a device
  const Profiler profiler(no_clock);
  if (!compute()) return false;
  of_item_ = profiler.model_flops() / static_cast<double>(items);
  return true;
}

}  // namespace moh
