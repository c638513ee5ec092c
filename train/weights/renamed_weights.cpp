#include "train/weights/renamed_weights.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace moh {

namespace {

/// New names by those in the file.
using NewNames = std::map<std::string, std::string, std::less<>>;

class RenamedWeights final : public WeightFile {
 public:
  RenamedWeights(std::unique_ptr<WeightFile> file, const NewNames& names) : file_(std::move(file)) {
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

  std::unique_ptr<WeightFile> file_;
  NewNames names_in_file_;  // by the new ones
};

}  // namespace

std::unique_ptr<WeightFile> under_names_of(std::span<const WeightInfo> parameters,
                                           const ParameterNames& names, std::unique_ptr<WeightFile> weights) {
  NewNames renamed;
  for (const WeightInfo& parameter : parameters) {
    const std::string_view other = names.other_name(parameter.name);
    const bool is_parameter = std::ranges::find(parameters, other, &WeightInfo::name) != parameters.end();
    if (other.empty() || is_parameter || weights->find(parameter.name) != nullptr) continue;
    if (weights->find(other) != nullptr) renamed[std::string(other)] = parameter.name;
  }
  if (renamed.empty()) return weights;
  return std::make_unique<RenamedWeights>(std::move(weights), renamed);
}

}  // namespace moh
