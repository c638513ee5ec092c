#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/dtype.h"

namespace moh {

/// A GPU's speed, as a data sheet or a measurement gives it.
struct PeakRate {
  double tflops = 0;
  std::string name;  ///< of the GPU; empty for a number
};

/// What `moh plan` is asked, beside the configuration.
struct PlanOptions {
  std::int64_t gpus = 1;
  std::optional<std::int64_t> memory_bytes;  ///< of each device
  double mfu = 0.4;                          ///< model FLOP utilisation, in (0, 1]
  std::optional<PeakRate> peak;              ///< of each device; without it nothing is said of time
};

/// "141GB", "79.6 GiB", "24e9": decimal units (kB, MB, GB, TB), binary ones (KiB, MiB, GiB, TiB), or bytes.
/// Throws ValueError naming `option`.
std::int64_t parse_memory(const std::string& text, const std::string& option);

/// "989" TFLOP/s, or a GPU whose rate for `dtype` is published: "H100", "H200", "A100", or the driver's name
/// of one (train/bench/ceilings.h). Throws ValueError naming `option`.
PeakRate parse_peak(const std::string& text, DType dtype, const std::string& option);

}  // namespace moh
