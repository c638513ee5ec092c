#include "tests/ops/device_ways.h"

#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/stream.h"

namespace moh::test {

Device open_gpu() {
  const Device gpu = parse_device("cuda");
  open_device(gpu);
  return gpu;
}

void in_each_way(const std::function<void(const std::string&)>& check) {
  for (const bool late : {false, true}) {
    for (const bool random : {false, true}) {
      const sim::FreedomScope scope({.late_copies = late, .random_order = random});
      const sim::Stream::LateScope stream(late);
      check(std::string(late ? "late" : "early") + " copies, threads " +
            (random ? "in random order" : "in turn"));
    }
  }
}

}  // namespace moh::test
