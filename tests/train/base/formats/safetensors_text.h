#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moh {

/// The bytes of a safetensors file with this header text and data, and any length in front.
inline std::string safetensors_bytes(std::string_view header, std::string_view data, std::uint64_t length) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i));
  return file.append(header).append(data);
}

inline std::string safetensors_bytes(std::string_view header, std::string_view data = "") {
  return safetensors_bytes(header, data, header.size());
}

}  // namespace moh
