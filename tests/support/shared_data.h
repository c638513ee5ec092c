#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "tests/support/case_tags.h"

namespace moh::test {

/// $MOH_SHARED, a folder of further test data, for cases with the tag [shared]; absent where the variable is
/// not set. Throws std::runtime_error when it names no folder.
inline std::optional<std::filesystem::path> shared_data() {
  require_tag("shared");
  const char* shared = std::getenv("MOH_SHARED");
  if (shared == nullptr) return {};
  if (!std::filesystem::is_directory(shared))
    throw std::runtime_error(std::string("MOH_SHARED: expected a folder, found ") + shared);
  return shared;
}

}  // namespace moh::test
