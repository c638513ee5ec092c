#include "train/weights/safetensors_weights.h"

#include <vector>

#include "core/error.h"
#include "train/checkpoint/stored_checkpoint.h"
#include "train/formats/safetensors.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

std::vector<WeightInfo> list_tensors(const SafetensorsFile& file) {
  std::vector<WeightInfo> tensors;
  for (const SafetensorsEntry& entry : file.entries())
    tensors.push_back({entry.name, entry.stored_dtype, entry.shape, entry.bytes()});
  return tensors;
}

const SafetensorsEntry& entry_of(const SafetensorsFile& file, const WeightInfo& tensor) {
  const SafetensorsEntry* entry = file.find(tensor.name);
  MOH_CHECK(entry != nullptr, "a tensor of this file");
  return *entry;
}

class SafetensorsWeights : public WeightFile {
 public:
  explicit SafetensorsWeights(const fs::path& path)
      : file_(path, InputKind::kCheckpoint), tensors_(list_tensors(file_)) {}

  const fs::path& path() const override { return file_.path(); }
  std::string format() const override { return "safetensors"; }
  std::span<const WeightInfo> tensors() const override { return tensors_; }
  const Metadata& metadata() const override { return file_.metadata(); }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    file_.read(entry_of(file_, tensor), offset, to);
  }

 private:
  SafetensorsFile file_;
  std::vector<WeightInfo> tensors_;
};

class CheckpointWeights : public WeightFile {
 public:
  explicit CheckpointWeights(const fs::path& step_folder)
      : checkpoint_(step_folder, LoadScope::kModelOnly), tensors_(list_tensors(checkpoint_.model().file())) {}

  const fs::path& path() const override { return checkpoint_.folder(); }
  std::string format() const override { return "moh checkpoint"; }
  std::span<const WeightInfo> tensors() const override { return tensors_; }
  const Metadata& metadata() const override { return checkpoint_.model().file().metadata(); }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    const StoredTensors& model = checkpoint_.model();
    model.read(entry_of(model.file(), tensor), offset, to);
  }

 private:
  StoredCheckpoint checkpoint_;
  std::vector<WeightInfo> tensors_;
};

}  // namespace

std::unique_ptr<WeightFile> open_safetensors_weights(const fs::path& path) {
  return std::make_unique<SafetensorsWeights>(path);
}

std::unique_ptr<WeightFile> open_checkpoint_weights(const fs::path& step_folder) {
  return std::make_unique<CheckpointWeights>(step_folder);
}

}  // namespace moh
