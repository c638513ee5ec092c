#include "train/weights/safetensors_weights.h"

#include <utility>

#include "core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"
#include "train/io/checksum.h"
#include "train/io/printable.h"
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
        listed_(*read_manifest(step_folder).find(kModelFile)),
        file_(step_folder / kModelFile) {
    verify_text_files(step_folder);
  }

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
      Checksum elements;
      stream_tensor(file_, tensor, tensor.stored_dtype, [&](std::span<const std::byte> bytes) {
        elements.update(bytes);
        whole.update(bytes);
      });
      const auto expected = listed_.tensors.find(tensor.name);
      // A name that is not listed is damage of the header.
      if (expected != listed_.tensors.end())
        compare(printable(tensor.name), expected->second, elements.hex());
    }
    compare("header", listed_.checksum, whole.hex());
  }

  void compare(std::string_view what, const std::string& expected, const std::string& found) const {
    if (found == expected) return;
    throw CheckpointError(error_message(file_.path().string(), what, "checksum " + printable(expected), found,
                                        "the checkpoint is damaged"));
  }

  fs::path folder_;
  ManifestFile listed_;
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
