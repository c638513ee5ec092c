#include "train/run/divided_save.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/threads.h"
#include "train/log/logging.h"

namespace moh {

namespace {

std::string text_of(const ManifestFile& file) {
  return nlohmann::json{file.name, file.bytes, file.checksum, file.tensors}.dump();
}

ManifestFile file_of(const std::string& text) {
  ManifestFile file;
  const nlohmann::json entry = nlohmann::json::parse(text);
  entry.at(0).get_to(file.name);
  entry.at(1).get_to(file.bytes);
  entry.at(2).get_to(file.checksum);
  for (const auto& [name, checksum] : entry.at(3).items()) file.tensors.emplace(name, checksum);
  return file;
}

}  // namespace

void warn_of_waiting_save(const std::string& reason) {
  log_warning(reason + "; the training waits while this checkpoint is written");
}

void DividedSave::start(CheckpointContents contents, const std::vector<TensorPart>& state) {
  MOH_CHECK(!under_way(), "finish() comes between two saves");
  const bool leads = processes_.leads();
  if (leads) draft_ = store_->begin(contents.step);
  const std::filesystem::path folder = processes_.text_of_leader(leads ? draft_->folder().string() : "");
  contents_ = std::move(contents);
  for (const TensorPart& part : state) {
    if (part.tensor.numel() > 0) contents_.optimizer.push_back({part.name, part.tensor});
  }
  const auto write = [this, leads, folder] {
    std::vector<ManifestFile> written;
    if (leads) written = write_model_files(contents_, folder);
    written.push_back(
        write_optimizer_shard(folder, processes_.rank(), processes_.size(), contents_.optimizer));
    return written;
  };
  writing_ = start_async_or_defer({"checkpoint.asynchronous"}, write, warn_of_waiting_save);
}

std::filesystem::path DividedSave::finish() {
  std::vector<ManifestFile> written = std::exchange(writing_, {}).get();
  std::vector<ManifestFile> shards;
  for (const std::string& text : processes_.texts_of_all(text_of(written.back())))
    shards.push_back(file_of(text));
  written.pop_back();
  const CheckpointContents contents = std::exchange(contents_, {});
  if (!processes_.leads()) return {};
  complete_checkpoint(contents, std::move(written), std::move(shards), draft_->folder());
  std::filesystem::path published = store_->publish(*draft_, contents.higher_is_better);
  draft_.reset();
  return published;
}

}  // namespace moh
