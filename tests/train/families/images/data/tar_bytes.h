#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "train/families/images/data/archive_state.h"

namespace moh::test {

/// A ustar archive with these members, names and contents.
inline std::string tar_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string tar;
  for (const auto& [name, contents] : members) {
    std::string header(512, '\0');
    header.replace(0, name.size(), name);
    char size[12];
    std::snprintf(size, sizeof size, "%011zo", contents.size());
    header.replace(124, 11, size);
    header.replace(148, 8, 8, ' ');
    header[156] = '0';
    header.replace(257, 5, "ustar");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    header.replace(148, 7, text, 7);
    tar += header + contents;
    tar.append((512 - contents.size() % 512) % 512, '\0');
  }
  return tar + std::string(1024, '\0');
}

/// Writes an archive in place and gives it its time of before. The clock of a file system ticks every few
/// milliseconds: it is written until the time of the last change of its status is another.
inline void rewrite_with_its_time(const std::filesystem::path& path, const std::string& contents) {
  const ArchiveState before = archive_state(path);
  const auto time = std::filesystem::last_write_time(path);
  do {
    write_file(path, contents);
    std::filesystem::last_write_time(path, time);
  } while (archive_state(path).changed == before.changed);
}

}  // namespace moh::test
