#include "train/io/durable_folder.h"

#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/io/durable_file.h"
#include "train/io/file_ops.h"

namespace moh {

namespace fs = std::filesystem;

DurableFolder::DurableFolder(fs::path path)
    : path_(path.has_filename() ? std::move(path) : path.parent_path()), temporary_(temporary_beside(path_)) {
  make_directories(temporary_);
}

DurableFolder::~DurableFolder() {
  std::error_code ignored;
  if (!renamed_) fs::remove_all(temporary_, ignored);
}

void DurableFolder::commit() {
  sync_directory(temporary_);
  std::error_code ignored;
  const bool replaces = fs::exists(fs::symlink_status(path_, ignored));
  const fs::path replaced =
      path_.parent_path() / ("." + path_.filename().string() + ".old-" + random_suffix());
  if (replaces) rename_path(path_, replaced);
  try {
    rename_path(temporary_, path_);
  } catch (const StorageError&) {
    if (replaces) rename_path(replaced, path_);
    throw;
  }
  renamed_ = true;
  sync_directory(temporary_.has_parent_path() ? temporary_.parent_path() : fs::path("."));
  if (replaces) remove_tree(replaced);
}

}  // namespace moh
