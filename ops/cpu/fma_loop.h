#pragma once

#include <cstdint>

namespace moh {

/// Measures the peak rate of the processor: float32 multiply-adds on registers alone, in the widest
/// vectors that the kernels use, with enough independent sums to saturate the FMA units. Each of
/// num_threads() threads runs `rounds` rounds. Returns the floating-point operations of all threads
/// together, 2 per multiply-add.
double run_fma_loop(std::int64_t rounds);

}  // namespace moh
