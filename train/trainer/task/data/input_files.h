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
  bool named = false;  ///< by the user: then an unusable file is an error; otherwise it is skipped
};

/// Skipped files, for one warning at the end.
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

/// Every regular file among the named files and in the named folders. Folders are traversed recursively in
/// the order of names, without hidden entries (names that start with a dot). Links are followed; a file or
/// folder that is reachable by several paths counts once, so that loops end and no text is read twice. Broken
/// links and special files inside folders go to `skipped`. Throws DataError naming path and reason for a
/// named path that is missing or neither file nor folder, and for any folder that cannot be read.
///
/// `run_folder`, if given and existing, is left out: a run must not read its own output as training data.
/// Throws DataError if it is one of the inputs itself.
std::vector<InputPath> list_input_files(std::span<const std::string> inputs, SkippedFiles& skipped,
                                        const std::filesystem::path& run_folder = {});

/// The kind of a file by its extension, in upper or lower case: "JSON Lines", "CSV", "compressed"; "" if it
/// may be plain text.
std::string_view format_by_name(const std::filesystem::path& path);

/// Refuses a file that has no text, for `reason`, if the user named it (DataError; `found` and `fix` are
/// parts of the message); otherwise adds it to `skipped`.
void pass_over(const InputPath& input, SkippedFiles& skipped, std::string_view reason, std::string_view found,
               std::string_view fix = "");
/// How to use a file that is not plain text by its name.
inline constexpr std::string_view kRecordsFix =
    "take the text out of it, into files of plain text, JSON Lines (docs/tokenizers.md) or a token file "
    "(docs/token_files.md); a name that ends in .txt is read as it is";

/// Passes the text of a file to `sink`, in blocks of at most kTextBlockBytes. A file that is empty, binary
/// (has a NUL byte) or not plain text by its name (JSON, tables, archives) is added to `skipped`, and the
/// result is false, unless the user named it; blocks that `sink` has got by then are not text. Throws
/// DataError naming the file if it cannot be read, or was named and contains no text.
bool stream_text(const InputPath& input, SkippedFiles& skipped,
                 FunctionRef<void(std::string_view block)> sink);
inline constexpr std::size_t kTextBlockBytes = 1 << 20;

}  // namespace moh
