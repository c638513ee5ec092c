#pragma once

#include <cstddef>
#include <string_view>

namespace moh::test {

/// Cells of a line of a table, which two spaces or more keep apart, whatever their widths.
inline std::size_t table_cells(std::string_view line) {
  std::size_t cells = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool begins = line[i] != ' ' && line[i] != '\n';
    if (begins && (i == 0 || (line[i - 1] == ' ' && (i == 1 || line[i - 2] == ' ')))) ++cells;
  }
  return cells;
}

}  // namespace moh::test
