#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"

namespace moh {

/// What `moh bench ops` measures: ops that stream memory, and matrix products on the shapes of published
/// models.
struct OpBenchOptions {
  Device device = kCpu;
  DType dtype = DType::kFloat32;
  std::int64_t megabytes = 256;   ///< of 2^20 bytes: size of each large tensor of the streaming ops
  std::vector<std::string> only;  ///< ops or models (OpBenchRecord), by name; empty: all
  int repeats = 9;                ///< counted runs of each case at most
  double seconds = 1.0;           ///< no more runs of a case once it took this long, but three at least
};

/// One measurement. On the CPU `op` "copy" and "fma" are the ceilings themselves; "memcpy" and "matmul peak"
/// stand beside them: what libc and a large product reach. On a GPU "copy" and "matmul peak", a large product
/// of these elements, are the ceilings; "published peak" stands beside it where it is known.
struct OpBenchRecord {
  std::string op;     ///< "rms_norm", "matmul", ...
  std::string model;  ///< of a matrix product: whose shape it is, "LLM-S mlp down"; else empty
  std::string
      pass;  ///< "forward", "backward"; of a product also its layout: "forward NT", "input NN", "weight TN"
  std::string shape;  ///< "[65536, 1024]", of a product "2048x768x2048" (m x n x k)
  std::string device, dtype;
  int threads = 0;
  double ms = 0, spread = 0;  ///< median, and (90th - 10th percentile) / median
  std::string unit;           ///< "GB/s" or "GFLOP/s"
  double rate = 0;            ///< achieved
  double ceiling = 0;         ///< measured, in the same unit

  double share() const { return rate / ceiling; }
};

/// Measures all cases one after another, handing each record over as soon as it is known, first the ceilings.
///
/// Bytes are those that an op cannot do without: each large input read once, each large output written once
/// (adamw reads and writes its state in place). A product of [m, k] and [k, n] is 2 m n k operations.
/// Throws ValueError naming the option that is out of range, or an unknown name in `only`.
void run_op_bench(const OpBenchOptions& options, const std::function<void(const OpBenchRecord&)>& on_record);

/// One JSON object with all fields, and a newline.
void write_json_line(std::ostream& out, const OpBenchRecord& record);
/// The head of a table for people, and one line of it.
void write_op_table_head(std::ostream& out);
void write_table_line(std::ostream& out, const OpBenchRecord& record);

}  // namespace moh
