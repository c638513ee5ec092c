#include "train/weights/safetensors_weights.h"

#include <utility>

#include "core/error.h"
#include "train/checkpoint/manifest.h"
#include "train/io/checksum.h"
#include "train/io/safetensors.h"
#include "train/weights/stream_tensor.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

class SafetensorsWeights : public WeightFile {
 public:
  explicit SafetensorsWeights(const fs::path& path) : file_(path, InputKind::kCheckpoint) {
    for (const SafetensorsEntry& entry : file_.entries()) {
      tensors_.push_back({entry.name, entry.stored_dtype, entry.shape, entry.bytes()});
    }
  }

  const fs::path& path() const override { return file_.path(); }
  std::string format() const override { return "safetensors"; }
  std::span<const WeightInfo> tensors() const override { return tensors_; }
  const Metadata& metadata() const override { return file_.metadata(); }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    const SafetensorsEntry* entry = file_.find(tensor.name);
    MOH_CHECK(entry != nullptr, "a tensor of this file");
    file_.read(*entry, offset, to);
  }

  const SafetensorsFile& file() const { return file_; }

 private:
  SafetensorsFile file_;
  std::vector<WeightInfo> tensors_;
};

class CheckpointWeights : public WeightFile {
 public:
  explicit CheckpointWeights(const fs::path& step_folder)
      : folder_(step_folder),
        checksum_(read_manifest(step_folder).find(kModelFile)->checksum),
        file_(step_folder / kModelFile) {}

  const fs::path& path() const override { return folder_; }
  std::string format() const override { return "moh checkpoint"; }
  std::span<const WeightInfo> tensors() const override { return file_.tensors(); }
  const Metadata& metadata() const override { return file_.metadata(); }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    if (!std::exchange(verified_, true)) verify();
    file_.read(tensor, offset, to);
  }

 private:
  void verify() const {
    Checksum whole;
    whole.update(file_.file().raw_header());
    for (const WeightInfo& tensor : file_.tensors()) {
      stream_tensor(file_, tensor, tensor.stored_dtype,
                    [&](std::span<const std::byte> bytes) { whole.update(bytes); });
    }
    if (const std::string found = whole.hex(); found != checksum_) {
      throw CheckpointError(error_message(file_.path().string(), "", "checksum " + checksum_, found,
                                          "the checkpoint is damaged"));
    }
  }

  fs::path folder_;
  std::string checksum_;
  SafetensorsWeights file_;
  mutable bool verified_ = false;
};

}  // namespace

std::unique_ptr<WeightFile> open_safetensors_weights(const fs::path& path) {
  return std::make_unique<SafetensorsWeights>(path);
}

std::unique_ptr<WeightFile> open_checkpoint_weights(const fs::path& step_folder) {
  return std::make_unique<CheckpointWeights>(step_folder);
}

}  // namespace moh
