#include "ops/loss/loss_divisor.h"

#include "ops/op.h"

namespace moh {

Divisor LossDivisor::divisor(std::string_view op, Device device) const {
  Check(op).positive("normalizer", value_);
  if (!on_device_.defined()) return {.value = value_};
  MOH_CHECK(device != kCpu && on_device_.device() == device && on_device_.numel() == 1,
            "a normalizer in device memory is a number on the GPU of the logits");
  return {.on_device = on_device_.data<double>()};
}

}  // namespace moh
