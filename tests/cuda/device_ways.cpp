#include "tests/ops/device_ways.h"

#include <iostream>

#include "core/error.h"

// On a real GPU, which does as it pleases: twice, since the second run must give the same bits.

namespace moh::test {

Device open_gpu() {
  const Device gpu = parse_device("cuda");
  try {
    open_device(gpu);
  } catch (const DeviceError& error) {
    std::cout << "moh test skipped: " << error.what() << std::endl;  // what ctest looks for
    throw;
  }
  return gpu;
}

void in_each_way(const std::function<void(const std::string&)>& check) {
  check("first run");
  check("second run");
}

}  // namespace moh::test
