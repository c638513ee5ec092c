#pragma once

#include "ops/device/kernel.h"
#include "ops/loss/divisor.h"

namespace moh {

MOH_DEVICE double number_of(Divisor divisor) {
  return (divisor.on_device != nullptr ? *divisor.on_device : divisor.value) / divisor.over;
}

}  // namespace moh
