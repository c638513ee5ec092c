#pragma once

#include "core/error.h"

namespace moh {

/// Data were replaced or written while a program used them. No picture is broken, so `on_error: skip` does
/// not pass over it.
class ChangedDataError : public DataError {
 public:
  using DataError::DataError;
};

}  // namespace moh
