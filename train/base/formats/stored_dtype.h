#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/dtype.h"
#include "core/shape.h"

namespace moh {

/// An element type of files.
struct StoredDType {
  std::string_view name;  ///< in safetensors, "F32"; empty for types of PyTorch only
  int bits;
  std::optional<DType> loads_as = std::nullopt;
  std::string_view torch = {};          ///< "float32"; empty for types of safetensors only
  std::string_view torch_storage = {};  ///< "FloatStorage"; empty for types newer than typed storages

  /// Size of an element; all types of PyTorch have whole bytes.
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(bits) / 8; }
};

/// The type of that name in safetensors, or nullptr.
const StoredDType* find_safetensors_dtype(std::string_view name);

/// The name under which safetensors files store `dtype`.
std::string_view safetensors_dtype_name(DType dtype);

/// The type that PyTorch calls "torch.float32", or nullptr.
const StoredDType* find_torch_dtype(std::string_view name);

/// The element type of a storage class of PyTorch, "torch.FloatStorage" or "torch.cuda.FloatStorage"; nullptr
/// for another class.
const StoredDType* find_torch_storage(std::string_view class_name);

/// Size of a stored tensor in bytes; nothing if it is not a whole number of bytes, or if safetensors has no
/// such type.
std::optional<std::uint64_t> stored_bytes(std::string_view stored_dtype, const Shape& shape);

/// Converts `count` packed elements. Neither pointer need be aligned; the two do not overlap.
using ConvertElements = void (*)(const std::byte* from, std::byte* to, std::size_t count);

/// The conversion between two stored types, by their names in safetensors: from floating point of 16 to 64
/// bits, integers and BOOL, to F32, BF16, F16 or F64. Rounds once, to nearest even; overflow becomes
/// infinity, NaN stays NaN. Null for other types: floating point of 8 bits and less needs scales that are
/// stored separately, and moh's models have no complex weights.
ConvertElements find_conversion(std::string_view from, std::string_view to);

}  // namespace moh
