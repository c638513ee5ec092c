#pragma once

#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace moh {

/// An element type of the safetensors format.
struct SafetensorsDType {
  std::string_view name;
  int bits;
  std::optional<DType> loads_as;
};

/// The type of that name, or nullptr.
const SafetensorsDType* find_safetensors_dtype(std::string_view name);

/// The name under which `dtype` is stored.
std::string_view safetensors_dtype_name(DType dtype);

}  // namespace moh
