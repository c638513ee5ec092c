#include "train/tools/convert/destination.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "core/error.h"
#include "train/io/printable.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const fs::path& to, std::string_view expected, std::string_view found,
                         std::string_view fix = "") {
  throw ConfigError(error_message("--to " + to.string(), "", expected, found, fix));
}

fs::path resolved(const fs::path& path) {
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(path, ignored);
  return whole.has_filename() ? whole : whole.parent_path();
}

bool contains(const fs::path& folder, const fs::path& path) {
  const fs::path outer = resolved(folder), inner = resolved(path);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Only what conversions write may go: files, none of which a run needs to go on.
void check_replaceable(const fs::path& folder) {
  std::error_code error;
  bool is_model = fs::is_empty(folder, error);
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!it->is_regular_file() || it->is_symlink()) {
      refuse(folder, "a folder of files, which --overwrite may replace", printable(name) + " in it");
    }
    if (name.starts_with("optimizer-")) {
      refuse(folder, "a folder without the state of a run", printable(name) + " in it");
    }
    is_model = is_model || name == "model.safetensors" || name == "model.safetensors.index.json";
  }
  if (error) refuse(folder, "a readable folder", error.message());
  if (!is_model) refuse(folder, "a model, which --overwrite may replace", "a folder with other files");
}

}  // namespace

bool is_file_output(const ConvertOptions& options) {
  return options.format == WeightFormat::kSafetensors && options.shard_bytes == 0;
}

void check_destination(const ConvertOptions& options, const ModelLocation& source) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(options.to, ignored);
  const bool file = is_file_output(options);
  if (file && !options.to.has_filename()) refuse(options.to, "the name of a file", "that of a folder");
  if (!file && options.to.extension() == ".safetensors") {
    refuse(options.to, "the name of a folder", "that of a file",
           options.shard_bytes != 0 ? "shards lie in a folder" : "");
  }
  if (!fs::exists(status)) return;
  if (contains(options.to, source.weights))
    refuse(options.to, "a place apart from the source", "one that holds it");
  if (fs::is_directory(status) == file || (!fs::is_directory(status) && !fs::is_regular_file(status))) {
    refuse(options.to, file ? "the name of a file" : "the name of a folder",
           fs::is_directory(status)      ? "a folder"
           : fs::is_regular_file(status) ? "a file"
                                         : "something else");
  }
  if (!options.overwrite) {
    refuse(options.to, "a name that is not taken", file ? "a file" : "a folder",
           "replace it with --overwrite");
  }
  if (!file) check_replaceable(options.to);
}

}  // namespace moh
