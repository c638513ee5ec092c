#include "core/cuda/ranges.h"

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace moh::cuda {

void push_range(std::string_view name) {
  nvtxRangePushA(std::string(name).c_str());
}

void pop_range() {
  nvtxRangePop();
}

}  // namespace moh::cuda
