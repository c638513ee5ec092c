#include "tests/ops/device_ways.h"

#include "tests/cuda_sim/first_way.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/stream.h"

namespace moh::test {

Device open_gpu() {
  const Device gpu = parse_device("cuda");
  open_device(gpu);
  return gpu;
}

void in_each_way(const std::function<void(const std::string&)>& check) {
  for (const sim::Way& way : sim::kWays) {
    const sim::FreedomScope scope(way.freedom);
    const sim::Streams::TimingScope stream(way.freedom.late_copies ? sim::Timing::kLate
                                                                   : sim::Timing::kAtOnce);
    check(way.name);
    if (FirstWay::suffices()) return;
  }
}

}  // namespace moh::test
