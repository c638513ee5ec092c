#pragma once

#include <bit>
#include <cstring>

#include "ops/device/kernel.h"

namespace moh::device {

struct LoadOperand {
  const void* row;
  std::uint32_t* registers;
};

inline void load_matrices(std::uint32_t (&registers)[4], const void* shared_row, bool transposed,
                          const std::source_location& where) {
  if (reinterpret_cast<std::uintptr_t>(shared_row) % 16 != 0)
    sim::fault("a row of a matrix at an address that is no multiple of 16", where);
  LoadOperand own{shared_row, registers};
  sim::this_thread().block->meet_in_warp(
      transposed ? "load_matrices_transposed" : "load_matrices", &own, where,
      [transposed](sim::Block::Operands& operands) {
        for (std::size_t m = 0; m < 4; ++m) {
          std::uint16_t matrix[8][8];
          for (std::size_t r = 0; r < 8; ++r)
            std::memcpy(matrix[r], static_cast<LoadOperand*>(operands[8 * m + r])->row, sizeof matrix[r]);
          for (std::size_t lane = 0; lane < kWarp; ++lane) {
            const std::size_t group = lane / 4, t = lane % 4 * 2;
            const std::uint32_t low = transposed ? matrix[t][group] : matrix[group][t];
            const std::uint32_t high = transposed ? matrix[t + 1][group] : matrix[group][t + 1];
            static_cast<LoadOperand*>(operands[lane])->registers[m] = low | high << 16;
          }
        }
      });
}

inline void load_matrices(std::uint32_t (&registers)[4], const void* shared_row,
                          const std::source_location& where = std::source_location::current()) {
  load_matrices(registers, shared_row, false, where);
}
inline void load_matrices_transposed(std::uint32_t (&registers)[4], const void* shared_row,
                                     const std::source_location& where = std::source_location::current()) {
  load_matrices(registers, shared_row, true, where);
}

struct MultiplyOperand {
  float* c;
  const std::uint32_t* a;
  std::uint32_t b[2];
};

/// Element `half` (0 or 1) of a register that holds two bfloat16.
inline float bfloat16_of(std::uint32_t pair, std::size_t half) {
  return std::bit_cast<float>(half == 0 ? pair << 16 : pair & 0xffff0000U);
}

/// Eight columns of a matrix, which the compiler computes at once.
using Row = float __attribute__((vector_size(32)));

inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b_upper,
                         std::uint32_t b_lower,
                         const std::source_location& where = std::source_location::current()) {
  MultiplyOperand own{c, a, {b_upper, b_lower}};
  sim::this_thread().block->meet_in_warp("multiply_add", &own, where, [](sim::Block::Operands& operands) {
    float left[16][16];
    Row right[16];
    for (std::size_t lane = 0; lane < kWarp; ++lane) {
      const auto& from = *static_cast<MultiplyOperand*>(operands[lane]);
      const std::size_t group = lane / 4, t = lane % 4 * 2;
      for (std::size_t half = 0; half < 2; ++half) {
        left[group][t + half] = bfloat16_of(from.a[0], half);
        left[group + 8][t + half] = bfloat16_of(from.a[1], half);
        left[group][t + 8 + half] = bfloat16_of(from.a[2], half);
        left[group + 8][t + 8 + half] = bfloat16_of(from.a[3], half);
        right[t + half][group] = bfloat16_of(from.b[0], half);
        right[t + 8 + half][group] = bfloat16_of(from.b[1], half);
      }
    }
    for (std::size_t row = 0; row < 16; ++row) {
      const auto element = [&](std::size_t column) -> float& {
        return static_cast<MultiplyOperand*>(operands[row % 8 * 4 + column / 2])->c[row / 8 * 2 + column % 2];
      };
      Row sums;
      for (std::size_t column = 0; column < 8; ++column) sums[column] = element(column);
      for (std::size_t k = 0; k < 16; ++k) sums += left[row][k] * right[k];
      for (std::size_t column = 0; column < 8; ++column) element(column) = sums[column];
    }
  });
}

}  // namespace moh::device
