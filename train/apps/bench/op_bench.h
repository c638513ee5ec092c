#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "train/base/measure/row.h"

namespace moh {

/// Options of `moh bench ops`, which measures memory-bound ops, and GEMMs and convolutions with the shapes of
/// published models.
struct OpBenchOptions {
  Device device = kCpu;
  DType dtype = DType::kFloat32;
  std::int64_t megabytes = 256;   ///< MiB of each large tensor of the memory-bound ops
  std::vector<std::string> only;  ///< names of ops or models; empty: all
  int repeats = 9;                ///< maximum of measured runs of each case
  double seconds = 1.0;           ///< time limit of each case, of which at least three runs are measured
};

/// Measures the ceilings, on the CPU again before each op or layer, then all cases, and passes each row to
/// `on_row` as soon as it is measured.
///
/// Fields of a row: `pass`, "forward" or "backward", and for GEMMs of a linear layer "forward NT", "input NN"
/// (gradient of the input) or "weight TN" (gradient of the weight), with the layout of the operands; `model`,
/// the layer whose shape a GEMM or convolution has, "LLM-S mlp down"; `shape`, "[65536, 1024]", for a GEMM
/// "2048x768x2048" (m x n x k), for a convolution "[8, 56, 56, 72] * [144, 72, 3, 3], stride 2" (images and
/// weight); `isa`, the instruction set of the CPU kernels; `ms`, the median of the runs, and `spread`, (90th
/// - 10th percentile) / median; `rate`, in `unit`, GB/s or GFLOP/s; `share`, rate / `ceiling`.
///
/// Ceilings have rows, too. On the CPU they are `op` "copy" and "fma"; for comparison, "memcpy" and "matmul
/// peak" (a large GEMM) follow. On a GPU they are "copy" and "matmul peak", a large GEMM of this dtype; for
/// comparison, "published peak" is the data sheet's rate, where known.
///
/// Bytes are the least that an op has to move: each large input read once, each large output written once
/// (adamw reads and writes its state in place). A GEMM of [m, k] and [k, n] has 2 m n k operations, a
/// convolution two for each output and weight that it reads, padding included, and as many for each gradient.
/// Throws ValueError naming the option that is out of range, or an unknown name in `only`.
void run_op_bench(const OpBenchOptions& options, const std::function<void(const Row&)>& on_row);

}  // namespace moh
