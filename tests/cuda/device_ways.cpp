#include "tests/ops/device_ways.h"

#include "core/error.h"
#include "tests/support/skip.h"

// On a real GPU, which does as it pleases: twice, since the second run must give the same bits.

namespace moh::test {

Device open_gpu() {
  const Device gpu = parse_device("cuda");
  try {
    open_device(gpu);
  } catch (const DeviceError& error) {
    throw_skip(error.what());
  }
  return gpu;
}

void in_each_way(const std::function<void(const std::string&)>& check) {
  check("first run");
  check("second run");
}

}  // namespace moh::test
