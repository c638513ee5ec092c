#pragma once

#include "tests/ops/op_cases.h"

namespace moh::test {

/// The op on the GPU against float64 on the CPU, or, where its result jumps, against the CPU in the same
/// precision, to within op_case.units * unit; the same bits in each way.
void check_on_device(const OpCase& op_case, DType dtype, double unit);

// Checks of functions without an OpCase, on a GPU, real or simulated, beside the CPU.

void check_tensors_on_device();
void check_indices_on_device();
void check_head_lists_on_device();
void check_top1_on_device();
void check_window_pool_on_device();
void check_balance_bias_on_device();
void check_router_statistics_on_device();
void check_bias_kernels_on_device();
void check_gelu_mlp_kernels_on_device();
void check_optimizer_on_device();
void check_dropout_keys_on_device();
void check_host_copies();
void check_uploads();
void check_clock_on_device();
void check_collectives_on_device();
void check_attention_on_device();
void check_aggregated_on_device();

}  // namespace moh::test
