#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace moh {

/// Writes what a first run, "language", "images" or "diffusion", needs to `folder`, NAME.yaml and for
/// "language" text.txt, unless it is there, and returns the path of the configuration, whose run is in
/// folder/NAME. Throws ConfigError for an unknown name, StorageError.
std::filesystem::path write_quickstart(std::string_view name, const std::filesystem::path& folder);

/// Commands to try when it has been trained, one in each line.
std::string after_quickstart(std::string_view name, const std::filesystem::path& folder);

}  // namespace moh
