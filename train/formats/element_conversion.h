#pragma once

#include <cstddef>
#include <string_view>

namespace moh {

/// Converts `count` packed elements. Neither pointer need be aligned; the two do not overlap.
using ConvertElements = void (*)(const std::byte* from, std::byte* to, std::size_t count);

/// The conversion between two stored types, by their names in safetensors: from floating point of 16 to 64
/// bits, integers and BOOL, to F32, BF16, F16 or F64. One rounding, to nearest even; what is too large
/// becomes infinite, NaN stays NaN. Null for other types: floating point of 8 bits and less means nothing
/// without the scales that lie beside it, and complex numbers are no weights of moh's models.
ConvertElements find_conversion(std::string_view from, std::string_view to);

}  // namespace moh
