#pragma once

namespace moh::test {

// What has no OpCase, on a GPU, real or simulated, beside the CPU.

void check_tensors_on_device();
void check_indices_on_device();
void check_head_lists_on_device();
void check_optimizer_on_device();
void check_clock_on_device();

}  // namespace moh::test
