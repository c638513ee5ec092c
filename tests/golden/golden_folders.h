#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <vector>

namespace moh::test {

/// $MOH_SHARED/golden, further reference files; absent where the variable is not set or the folder is not
/// there. Throws std::runtime_error when $MOH_SHARED is no folder.
inline std::optional<std::filesystem::path> shared_golden_folder() {
  const char* shared = std::getenv("MOH_SHARED");
  if (shared == nullptr) return {};
  if (!std::filesystem::is_directory(shared))
    throw std::runtime_error(std::string("MOH_SHARED: expected a folder, found ") + shared);
  const std::filesystem::path folder = std::filesystem::path(shared) / "golden";
  if (!std::filesystem::is_directory(folder)) return {};
  return folder;
}

/// The folders of reference files, both laid out as tests/golden/data/README.md says: that of the tree, and
/// the shared one where there is one.
inline std::vector<std::filesystem::path> golden_folders() {
  std::vector<std::filesystem::path> folders = {std::filesystem::path(MOH_SOURCE_DIR) / "tests/golden/data"};
  if (const auto shared = shared_golden_folder()) folders.push_back(*shared);
  return folders;
}

}  // namespace moh::test
