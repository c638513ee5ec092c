#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/base/io/checksum.h"
#include "train/weights/checkpoint/manifest.h"

namespace {

using nlohmann::json;

/// A step folder with the files of a checkpoint, all of them empty.
const moh::TemporaryFolder& step_folder() {
  static const moh::TemporaryFolder folder;
  static const bool filled = [] {
    for (const char* name : {moh::kModelFile, moh::kTrainerFile, moh::kConfigFile})
      moh::write_file(folder / name, "");
    moh::write_file(folder / moh::optimizer_shard_file(0, 1), "");
    return true;
  }();
  static_cast<void>(filled);
  return folder;
}

void read_manifest_of(const std::string& text) {
  moh::write_file(step_folder() / moh::kManifestFile, text);
  try {
    moh::to_json(moh::read_manifest(step_folder().path()));
  } catch (const moh::CheckpointError&) {
  }
}

}  // namespace

/// The text as it is; and if it is an object of JSON, with its checksum put right, so that the reader gets
/// past that.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_manifest_of(text);
  json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return 0;
  document.erase("checksum");
  document["checksum"] = moh::checksum_hex(document.dump(-1, ' ', false, json::error_handler_t::replace));
  read_manifest_of(document.dump(1, ' ', false, json::error_handler_t::replace) + '\n');
  return 0;
}
