#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "train/bench/row.h"

namespace moh {

/// What `moh bench ops` measures: ops that stream memory, and matrix products on the shapes of published
/// models.
struct OpBenchOptions {
  Device device = kCpu;
  DType dtype = DType::kFloat32;
  std::int64_t megabytes = 256;   ///< of 2^20 bytes: size of each large tensor of the streaming ops
  std::vector<std::string> only;  ///< ops or models, by name; empty: all
  int repeats = 9;                ///< counted runs of each case at most
  double seconds = 1.0;           ///< no more runs of a case once it took this long, but three at least
};

/// Measures all cases one after another, handing each row over as soon as it is known, first the ceilings.
///
/// Of a row: `pass` is "forward" or "backward", of a product with its layout ("forward NT", "input NN",
/// "weight TN"); `model` whose shape a product has, "LLM-S mlp down"; `shape` "[65536, 1024]", of a product
/// "2048x768x2048" (m x n x k); `ms` the median of the runs, `spread` (90th - 10th percentile) / median;
/// `rate` what was achieved, in `unit`, GB/s or GFLOP/s; `share` what that is of `ceiling`, which was
/// measured.
///
/// On the CPU `op` "copy" and "fma" are the ceilings themselves; "memcpy" and "matmul peak" stand beside
/// them: what libc and a large product reach. On a GPU "copy" and "matmul peak", a large product of these
/// elements, are the ceilings; "published peak" stands beside it where it is known.
///
/// Bytes are those that an op cannot do without: each large input read once, each large output written once
/// (adamw reads and writes its state in place). A product of [m, k] and [k, n] is 2 m n k operations.
/// Throws ValueError naming the option that is out of range, or an unknown name in `only`.
void run_op_bench(const OpBenchOptions& options, const std::function<void(const Row&)>& on_row);

}  // namespace moh
