#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace moh {

/// A file of another kind in place of the expected one: a pointer of Git LFS, a web page, a compressed file.
struct StandIn {
  std::string_view found;  ///< "a pointer of Git LFS, not the file"
  std::string_view fix;
};

/// As many first bytes of a file tell each of them.
inline constexpr std::size_t kStandInBytes = 512;

/// The one that a file with these first bytes is; null for any other. No format of models begins so; of text,
/// a web page may be meant.
const StandIn* stand_in_of(std::string_view first_bytes);
/// Whether it is a pointer of Git LFS, which nobody means as data.
bool is_lfs_pointer(std::string_view first_bytes);

/// "the file is a web page; ...", for the end of a message about a file that cannot be read; "" for any
/// other.
std::string stand_in_note(std::string_view first_bytes);

/// How to come to a model, where nothing is at `path`: one with the form of a name on the Hugging Face hub
/// (owner/name, or its address) has to be downloaded. "" for other paths.
std::string download_advice(const std::filesystem::path& path);

/// Where the model is, if the folder is that of a repository in the hub's cache (models--OWNER--NAME), which
/// holds it in `snapshots`; "" for other folders.
std::string hub_cache_advice(const std::filesystem::path& folder);

}  // namespace moh
