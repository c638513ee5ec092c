#include "train/comm/exit_code.h"

#include "core/error.h"
#include "train/comm/comm_error.h"

namespace moh {

int exit_code_of(const std::exception& error) {
  const auto is = [&]<class E>() { return dynamic_cast<const E*>(&error) != nullptr; };
  if (is.operator()<ConfigError>() || is.operator()<ValueError>() || is.operator()<DeviceError>())
    return kConfigError;
  if (is.operator()<DataError>() || is.operator()<CheckpointError>()) return kInputError;
  if (is.operator()<NumericError>()) return kNumericAbort;
  if (is.operator()<StorageError>()) return kStorageError;
  if (const auto* const peer = dynamic_cast<const PeerError*>(&error)) return peer->exit_code();
  if (is.operator()<CommError>()) return kCommError;
  return kFailure;
}

}  // namespace moh
