#pragma once

#include "train/config/run_config.h"

namespace moh {

/// What happens to matrix products that config.gemm_algorithms has no algorithm for.
enum class NewProducts {
  kFirstProposal,  ///< cuBLASLt's first proposal, untimed
  kSearch,         ///< its fastest
  kSearchAndKeep   ///< its fastest, which the file gets
};

/// Opens config.device. On a GPU, matrix multiplications are computed by the algorithms of
/// config.gemm_algorithms from then on. Throws DeviceError, and DataError for a file that cannot be read or
/// is of another GPU; when the file cannot be written, the product throws StorageError.
void open_configured_device(const RunConfig& config, NewProducts new_products);

}  // namespace moh
