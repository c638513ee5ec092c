#include "train/trainer/run/checkpoint_writer.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "train/trainer/optim/parameter_shards.h"

namespace moh {

namespace {

class WholeCheckpointWriter : public CheckpointWriter {
 public:
  explicit WholeCheckpointWriter(CheckpointStore& store) : store_(store) {}

  void begin(CheckpointContents contents, const AdamW& optimizer) override {
    contents_ = std::move(contents);
    contents_.optimizer = optimizer.state();
  }
  void write() override { folder_ = store_.save(contents_); }
  std::filesystem::path publish() override {
    contents_ = {};
    return std::exchange(folder_, {});
  }

 private:
  CheckpointStore& store_;
  CheckpointContents contents_;
  std::filesystem::path folder_;
};

std::string text_of_shard(const ManifestFile& file) {
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

class ShardedCheckpointWriter : public CheckpointWriter {
 public:
  ShardedCheckpointWriter(CheckpointStore* store, Communicator& processes)
      : store_(store), processes_(processes) {}

  void begin(CheckpointContents contents, const AdamW& optimizer) override {
    if (processes_.is_rank0()) draft_ = store_->begin(contents.step);
    folder_ = processes_.text_of_rank0(draft_ ? draft_->folder().string() : "");
    contents_ = std::move(contents);
    for (const TensorPart& part : optimizer.state_parts()) {
      if (part.tensor.numel() > 0) contents_.optimizer.push_back({part.name, part.tensor});
    }
  }

  void write() override {
    if (processes_.is_rank0())
      model_files_ = write_model_files(contents_, folder_);
    else
      read_model_files(contents_);
    shard_ = write_optimizer_shard(folder_, processes_.rank(), processes_.size(), contents_.optimizer);
  }

  std::filesystem::path publish() override {
    std::vector<ManifestFile> shards;
    for (const std::string& text : processes_.texts_of_all(text_of_shard(shard_)))
      shards.push_back(file_of(text));
    const CheckpointContents contents = std::exchange(contents_, {});
    if (!processes_.is_rank0()) return {};
    const std::unique_ptr<CheckpointDraft> draft = std::exchange(draft_, nullptr);
    complete_checkpoint(contents, std::exchange(model_files_, {}), std::move(shards), folder_);
    return store_->publish(*draft, contents.higher_is_better);
  }

 private:
  CheckpointStore* store_;
  Communicator& processes_;
  CheckpointContents contents_;
  std::unique_ptr<CheckpointDraft> draft_;  // of process 0
  std::filesystem::path folder_;
  std::vector<ManifestFile> model_files_;
  ManifestFile shard_;
};

}  // namespace

std::unique_ptr<CheckpointWriter> whole_checkpoint_writer(CheckpointStore& store) {
  return std::make_unique<WholeCheckpointWriter>(store);
}

std::unique_ptr<CheckpointWriter> sharded_checkpoint_writer(CheckpointStore* store, Communicator& processes) {
  return std::make_unique<ShardedCheckpointWriter>(store, processes);
}

}  // namespace moh
