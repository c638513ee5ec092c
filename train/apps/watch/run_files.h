#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moh::watch {

/// A file of a run that people look at.
struct RunFile {
  enum class Kind { kText, kImage, kTrace };
  Kind kind = Kind::kText;
  std::string name;  ///< below the run's folder: "samples/step_00000200.png"
  std::uint64_t bytes = 0;
};

/// Regular files under the names that a run gives them, in the order of their names: sample.txt,
/// samples/step_*.png, trace.json and trace.rank*.json. Links are left out: a folder that was copied from
/// elsewhere could lead to any file of this machine.
std::vector<RunFile> files_of(const std::filesystem::path& run);

/// Larger ones are not sent.
inline constexpr std::uint64_t kMostFileBytes = std::uint64_t{64} << 20;

/// The kind by its name; nothing for a name that no run gives, such as one with a folder above it.
std::optional<RunFile::Kind> kind_of_file(std::string_view name);

/// The bytes of one of these files; nothing if there is no such file, it is a link or reached through one, or
/// is larger than kMostFileBytes.
std::optional<std::string> read_run_file(const std::filesystem::path& run, const std::string& name);

}  // namespace moh::watch
