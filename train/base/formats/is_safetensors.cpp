#include "train/base/formats/is_safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace moh {

namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view without_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

}  // namespace

bool is_safetensors(const InputFile& file) {
  constexpr std::size_t kLookedAt = 256;
  std::uint64_t length = 0;
  const std::string first = file.first_bytes(sizeof(length) + kLookedAt);
  if (first.size() < sizeof(length)) return false;
  std::memcpy(&length, first.data(), sizeof(length));
  if (length < 2 || length > file.size() - sizeof(length)) return false;
  std::string_view header = std::string_view(first).substr(sizeof(length));
  header = without_space(
      header.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(length, header.size()))));
  if (!header.starts_with('{')) return false;
  header = without_space(header.substr(1));
  return header.starts_with('"') || header.starts_with('}');
}

}  // namespace moh
