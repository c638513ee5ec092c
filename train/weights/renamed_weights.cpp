#include "train/weights/renamed_weights.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace moh {

namespace {

class RenamedWeights final : public WeightFile {
 public:
  /// `owned` is the file, or null where somebody else keeps it.
  RenamedWeights(const WeightFile& file, const NewNames& names, std::unique_ptr<WeightFile> owned = nullptr)
      : owned_(std::move(owned)), file_(&file) {
    std::vector<WeightInfo> tensors(file_->tensors().begin(), file_->tensors().end());
    for (WeightInfo& tensor : tensors) {
      const auto renamed = names.find(tensor.name);
      if (renamed == names.end()) continue;
      names_in_file_[renamed->second] = tensor.name;
      tensor.name = renamed->second;
    }
    metadata_ = file_->metadata();
    set_tensors(std::move(tensors));
  }

  const std::filesystem::path& path() const override { return file_->path(); }
  std::string format() const override { return file_->format(); }
  std::vector<WeightSection> other_contents() const override { return file_->other_contents(); }
  std::vector<std::filesystem::path> files() const override { return file_->files(); }
  std::vector<std::string> parts() const override { return file_->parts(); }
  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    file_->read(in_file(tensor), offset, to);
  }
  void stream(const WeightInfo& tensor, FunctionRef<void(std::span<const std::byte>)> sink) const override {
    file_->stream(in_file(tensor), sink);
  }

 private:
  const WeightInfo& in_file(const WeightInfo& tensor) const {
    const auto renamed = names_in_file_.find(tensor.name);
    return *file_->find(renamed == names_in_file_.end() ? tensor.name : renamed->second);
  }

  std::unique_ptr<WeightFile> owned_;
  const WeightFile* file_;
  NewNames names_in_file_;  // by the new ones
};

}  // namespace

std::unique_ptr<WeightFile> under_names_of(std::span<const WeightInfo> parameters,
                                           const ParameterNames& names, std::unique_ptr<WeightFile> weights) {
  NewNames new_names;
  for (const WeightInfo& parameter : parameters) {
    if (weights->find(parameter.name) != nullptr) continue;
    for (const std::string& other : names.other_names(parameter.name)) {
      const bool is_parameter = std::ranges::find(parameters, other, &WeightInfo::name) != parameters.end();
      if (is_parameter || weights->find(other) == nullptr || new_names.contains(other)) continue;
      new_names[other] = parameter.name;
      break;
    }
  }
  if (new_names.empty()) return weights;
  const WeightFile& file = *weights;
  return std::make_unique<RenamedWeights>(file, new_names, std::move(weights));
}

std::unique_ptr<WeightFile> renamed(const WeightFile& weights, const NewNames& names) {
  return std::make_unique<RenamedWeights>(weights, names);
}

}  // namespace moh
