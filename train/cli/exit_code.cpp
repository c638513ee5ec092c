#include "train/cli/exit_code.h"

#include "core/error.h"

namespace moh::cli {

int exit_code_of(const std::exception& error) {
  const auto is = [&]<class E>() { return dynamic_cast<const E*>(&error) != nullptr; };
  if (is.operator()<ConfigError>() || is.operator()<ValueError>() || is.operator()<DeviceError>())
    return kConfigError;
  if (is.operator()<DataError>() || is.operator()<CheckpointError>()) return kInputError;
  if (is.operator()<NumericError>()) return kNumericAbort;
  if (is.operator()<StorageError>()) return kStorageError;
  return kFailure;
}

}  // namespace moh::cli
