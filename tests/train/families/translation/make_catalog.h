#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace moh::test {

/// (message, translation), as they lie in a catalog.
using CatalogEntries = std::vector<std::pair<std::string, std::string>>;

/// A message catalog of GNU gettext: header, the two tables, the strings.
inline std::string make_catalog(const CatalogEntries& entries, bool big_endian = false,
                                std::uint32_t revision = 0) {
  const auto number = [&](std::uint64_t value) {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i);
    if (big_endian) std::ranges::reverse(bytes);
    return bytes;
  };
  constexpr std::uint64_t kHeader = 28;
  const std::uint64_t table_bytes = 8 * entries.size();
  std::string tables[2], strings;
  for (int side = 0; side < 2; ++side) {
    for (const auto& [id, translation] : entries) {
      const std::string& text = side == 0 ? id : translation;
      tables[side] += number(text.size()) + number(kHeader + 2 * table_bytes + strings.size());
      strings += text + '\0';
    }
  }
  return number(0x950412de) + number(revision) + number(entries.size()) + number(kHeader) +
         number(kHeader + table_bytes) + number(0) + number(0) + tables[0] + tables[1] + strings;
}

/// The header entry of a character set.
inline std::pair<std::string, std::string> catalog_header(const std::string& charset) {
  return {"", "Language: de\nContent-Type: text/plain; charset=" + charset + "\n"};
}

}  // namespace moh::test
