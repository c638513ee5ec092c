#pragma once

#include <cstdint>

namespace moh {

/// Options of a measurement of training data.
struct DataBenchOptions {
  std::int64_t batch = 64;   ///< samples of a batch
  std::int64_t batches = 8;  ///< measured ones, after one that is not
  std::int64_t first = 0;    ///< sample to begin with
  int threads = 1;           ///< of the last row
};

}  // namespace moh
