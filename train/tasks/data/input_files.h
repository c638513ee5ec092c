#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"

namespace moh {

/// A file that the user named, or that was found in a folder that the user named.
struct InputPath {
  std::string path;
  bool named = false;  ///< by the user: then a file that cannot be used is an error, not a skip
};

/// Files that were passed over, for one warning at the end.
class SkippedFiles {
 public:
  void add(std::string_view reason, const std::string& path);
  std::int64_t count() const;
  /// "3 binary (first: data/a.o), 1 empty (first: data/b.txt)"; "" when nothing was skipped.
  std::string describe() const;

 private:
  struct Reason {
    std::string name;
    std::string first_path;
    std::int64_t count = 0;
  };
  std::vector<Reason> reasons_;
};

/// Every regular file under the named files and folders. A folder is walked with its subfolders in the order
/// of their names, without hidden entries (names that start with a dot). Links are followed, and a file or
/// folder that can be reached in several ways counts once, so that loops end and no text is read twice.
/// Broken links and special files inside folders go to `skipped`. Throws DataError naming path and reason for
/// a named path that is missing or neither file nor folder, and for any folder that cannot be read.
///
/// `run_folder`, where it is given and exists, is left out with all that is in it: what a run writes there
/// must not become what it reads. Throws DataError when it is one of the inputs itself.
std::vector<InputPath> list_input_files(std::span<const std::string> inputs, SkippedFiles& skipped,
                                        const std::filesystem::path& run_folder = {});

/// Hands the text of a file to `sink`, in blocks of at most kTextBlockBytes. False when it is empty, binary
/// (has a NUL byte) or by its name no plain text (JSON, tables, archives) and was not named by the user: then
/// it goes to `skipped`, and what `sink` has got of it is no text. Throws DataError naming the file when it
/// cannot be read, or was named and holds no text.
bool stream_text(const InputPath& input, SkippedFiles& skipped,
                 FunctionRef<void(std::string_view block)> sink);
inline constexpr std::size_t kTextBlockBytes = 1 << 20;

}  // namespace moh
