#pragma once

#include "ops/device/kernel.h"

// Tensor cores, sm_80 and later. Fragments have PTX's layout: lane = 4 * group + t holds elements (group, 2
// t) and (group, 2 t + 1) of an 8 x 8 matrix of bfloat16 in one register.

namespace moh::device {

/// Four 8 x 8 matrices of bfloat16 from shared memory: lane 8 m + r gives the address of row r of matrix m, a
/// multiple of 16; registers[m] is the lane's part of matrix m.
MOH_DEVICE void load_matrices(std::uint32_t (&registers)[4], const void* shared_row) {
  const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(from)
               : "memory");
}
/// load_matrices() with each matrix transposed.
MOH_DEVICE void load_matrices_transposed(std::uint32_t (&registers)[4], const void* shared_row) {
  const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(from)
               : "memory");
}
/// c += a b: a [16, 16] as matrices (top left, bottom left, top right, bottom right), b [16, 8] as the
/// transposes of its upper and lower half, c [16, 8] in float32: elements (group, 2 t), (group, 2 t + 1),
/// (group + 8, 2 t), (group + 8, 2 t + 1).
MOH_DEVICE void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b_upper,
                             std::uint32_t b_lower) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_upper), "r"(b_lower));
}

}  // namespace moh::device
