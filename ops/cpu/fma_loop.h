#pragma once

#include <cstdint>

namespace moh {

/// Keeps every thread busy with float32 multiply-adds on registers alone, in vectors of the widest kind that
/// the kernels use, with enough independent sums for the processor to start all it can: nothing computes
/// faster here, so its rate is the ceiling for everything else. Each of num_threads() threads makes `rounds`
/// rounds. Returns the floating-point operations that were done, all threads together (a multiply-add is
/// two).
double run_fma_loop(std::int64_t rounds);

}  // namespace moh
