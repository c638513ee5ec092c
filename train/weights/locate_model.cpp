#include "train/weights/locate_model.h"

#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "train/base/formats/safetensors.h"
#include "train/base/formats/torch/torch_file.h"
#include "train/base/formats/torch/torch_weights.h"
#include "train/base/io/input_file.h"
#include "train/base/io/stand_in.h"
#include "train/weights/checkpoint/stored_checkpoint.h"
#include "train/weights/foreign_formats.h"
#include "train/weights/meta_weights.h"
#include "train/weights/sharded_weights.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr const char* kHfConfig = "config.json";

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

[[noreturn]] void fail(const fs::path& path, std::string_view what, std::string_view expected,
                       std::string_view found, std::string_view fix = "") {
  throw CheckpointError(error_message(path.string(), what, expected, found, fix));
}

/// Throws an error that names the format of `path`, if it is a known one of another program.
void refuse_foreign(const fs::path& path, const ForeignFormat* format) {
  if (format != nullptr)
    fail(path, "", "a safetensors or PyTorch file, or a Hugging Face folder", format->name, format->fix);
}

/// Whether resolve_checkpoint() would find a checkpoint in a folder.
bool holds_checkpoint(const fs::path& folder) {
  return path_exists(folder / kManifestFile) || path_exists(folder / "checkpoints") ||
         !list_checkpoints(folder).empty() || step_of_folder_name(folder.filename().string()).has_value();
}

fs::path config_beside(const fs::path& weights) {
  const fs::path folder = weights.parent_path();
  if (is_meta_weights(weights)) return folder / kMetaConfig;
  if (path_exists(folder / kHfConfig)) return folder / kHfConfig;
  return is_step_folder(folder) ? folder / kConfigFile : fs::path();
}

fs::path weights_in(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors", sharded = folder / "model.safetensors.index.json";
  if (path_exists(single) && path_exists(sharded)) {
    fail(folder, "", "model.safetensors or model.safetensors.index.json", "both",
         "name one of the two files");
  }
  for (const fs::path& file :
       {single, sharded, folder / "pytorch_model.bin", folder / "pytorch_model.bin.index.json"}) {
    if (path_exists(file)) return file;
  }
  fs::path meta = folder / "consolidated.00.pth";
  if (path_exists(meta) && is_meta_weights(meta)) return meta;
  refuse_foreign(folder, foreign_folder(folder));
  const std::string in_cache = hub_cache_advice(folder);
  if (!in_cache.empty())
    fail(folder, "", "a model", "the folder of a repository in the hub's cache", in_cache);
  fail(folder, "", "model.safetensors, model.safetensors.index.json, pytorch_model.bin or checkpoints of moh",
       "none of them", "name the file itself when it is called otherwise");
}

/// Whether the first bytes may be JSON: it has no NUL, unlike the length at the start of a safetensors file.
bool looks_like_json(std::string_view first) {
  const std::size_t begin = first.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && first[begin] == '{' && first.find('\0') == std::string_view::npos;
}

void refuse_part(const fs::path& path, const std::string& part) {
  if (part.empty()) return;
  throw ConfigError(
      error_message(path.string(), "part", "none: only PyTorch files hold several models", "'" + part + "'"));
}

std::unique_ptr<WeightFile> open_file(const fs::path& path, const std::string& part, bool may_be_index,
                                      TotalSize total_size = TotalSize::kChecked) {
  const std::string first = InputFile(path, InputKind::kCheckpoint).first_bytes(9);
  refuse_foreign(path, foreign_file(path, first));
  if (is_meta_weights(path)) {
    refuse_part(path, part);
    return open_meta_weights(path);
  }
  if (looks_like_torch_file(path)) return open_torch_weights(path, part);
  if (may_be_index && looks_like_json(first)) {
    return open_sharded_weights(
        path, [&](const fs::path& shard) { return open_file(shard, part, false); }, total_size);
  }
  refuse_part(path, part);
  if (!looks_like_safetensors(first)) {
    fail(path, "",
         may_be_index ? "a safetensors file, the index of a sharded one or a PyTorch file"
                      : "a safetensors or PyTorch file",
         first.empty() ? "an empty file" : "another");
  }
  return std::make_unique<SafetensorsFile>(path, InputKind::kCheckpoint);
}

}  // namespace

ModelLocation locate_model(const fs::path& given) {
  const fs::path path = path_of_step(given);
  if (!path_exists(path)) fail(path, "", "a model", "no such file or folder", download_advice(path));
  if (!is_folder(path)) return {path, config_beside(path), false};
  // "runs/a/" has an empty filename().
  const fs::path folder = path.has_filename() ? path : path.parent_path();
  if (holds_checkpoint(folder)) {
    const fs::path step = resolve_checkpoint(folder);
    return {step, step / kConfigFile, true};
  }
  const fs::path weights = weights_in(folder);
  return {weights, config_beside(weights), false};
}

std::unique_ptr<WeightFile> open_weights(const ModelLocation& location, const std::string& part,
                                         TotalSize total_size) {
  if (!location.is_checkpoint) return open_file(location.weights, part, /*may_be_index=*/true, total_size);
  StoredCheckpoint checkpoint(location.weights, LoadScope::kModelOnly);
  if (part == kAveragePart && !checkpoint.average().empty())
    return std::make_unique<StoredTensors>(std::move(checkpoint).take_average());
  if (!part.empty() && part != kModelPart) {
    throw ConfigError(error_message(
        location.weights.string(), "part",
        checkpoint.average().empty() ? "model: this checkpoint has no moving average" : "model or ema",
        "'" + part + "'"));
  }
  return std::make_unique<StoredTensors>(std::move(checkpoint).take_model());
}

bool is_step_folder(const fs::path& folder) {
  // Other programs have files named manifest.json, too.
  return path_exists(folder / kManifestFile) && path_exists(folder / kConfigFile);
}

}  // namespace moh
