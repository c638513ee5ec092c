#pragma once

#include <cstdint>

#include "core/dtype.h"

// Kernels that do little but call a primitive of ops/device, so that one that a GPU takes otherwise than the
// simulator is found by itself, and not as a wrong sum of attention. All pointers are the device's.

namespace moh::test {

/// registers[m * 32 + lane] of load_matrices, or of load_matrices_transposed, for matrices [4, 8, 8].
void launch_load_matrices(const bfloat16* matrices, bool transposed, std::uint32_t* registers);

/// c [16, 8] = a [16, 16] b: b [16, 8], or its transpose [8, 16].
void launch_multiply(const bfloat16* a, const bfloat16* b, bool b_is_transposed, float* c);

/// Copies two halves of `from`, kCopied elements each, in a group of copies each, the second with zeros where
/// the element's number in units of 16 bytes is odd; to[half] is written when only the copies that it needs
/// were waited for.
inline constexpr int kCopied = 512;
void launch_copies(const float* from, float* to);

/// powers[i] = exp2_fast(x[i]), pairs[i] = pack_bfloat16(x[i], -x[i]).
void launch_math(const float* x, int count, float* powers, std::uint32_t* pairs);

/// The values that a warp's lanes get when lane i has the value 3 i + 1: from lane (5 i + 2) % 32, from lane
/// i ^ 5, and the ballot of i % 3 == 0. results [3, 32].
void launch_warp(std::int32_t* results);

/// Blocks of 64 threads. counters[0]: how many threads there were, [1]: a fold of the blocks' numbers in
/// their order, sum = sum * 2 + number modulo 2^16, each block waiting for the one before (counters[2]). All
/// begin as zeros.
void launch_blocks(int blocks, std::int32_t* counters);

/// to[i] = from[count - 1 - i] by way of shared memory, `count` elements of it, a multiple of 128.
void launch_reverse(const float* from, float* to, int count);

}  // namespace moh::test
