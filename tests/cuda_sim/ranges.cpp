#include "core/cuda/ranges.h"

#include <cstddef>

#include "core/error.h"

// NVTX ranges of a simulated GPU, at which no tool looks: each that ends has begun.

namespace moh::cuda {

namespace {

thread_local std::size_t open_ranges = 0;

}  // namespace

void push_range(std::string_view) {
  ++open_ranges;
}

void pop_range() {
  MOH_CHECK(open_ranges > 0, "a range ends that has begun");
  --open_ranges;
}

}  // namespace moh::cuda
