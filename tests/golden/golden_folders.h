#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "tests/support/shared_data.h"

namespace moh::test {

/// The folder golden of shared_data(), further reference files; absent where it is not there.
inline std::optional<std::filesystem::path> shared_golden_folder() {
  const auto shared = shared_data();
  if (!shared || !std::filesystem::is_directory(*shared / "golden")) return {};
  return *shared / "golden";
}

/// The folders of reference files, both laid out as tests/golden/data/README.md says: that of the tree, and
/// the shared one where there is one.
inline std::vector<std::filesystem::path> golden_folders() {
  std::vector<std::filesystem::path> folders = {std::filesystem::path(MOH_SOURCE_DIR) / "tests/golden/data"};
  if (const auto shared = shared_golden_folder()) folders.push_back(*shared);
  return folders;
}

}  // namespace moh::test
