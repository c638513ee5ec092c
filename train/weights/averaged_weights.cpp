#include "train/weights/averaged_weights.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/printable.h"
#include "train/weights/compare_weights.h"

namespace moh {

namespace {

class AveragedWeights final : public WeightFile {
 public:
  explicit AveragedWeights(std::vector<std::unique_ptr<WeightFile>> files) : files_(std::move(files)) {
    if (files_.empty())
      throw CheckpointError(error_message("average of weights", "", "1 file or more", "none"));
    for (const auto& file : files_)
      check_matches("average of weights: " + file->path().string(), last().tensors(), file->tensors());
    for (const WeightInfo& tensor : last().tensors()) check_type(tensor);
    metadata_ = last().metadata();
    set_tensors({last().tensors().begin(), last().tensors().end()});
  }

  const std::filesystem::path& path() const override { return last().path(); }
  std::string format() const override {
    return last().format() + ", mean of " + std::to_string(files_.size());
  }
  std::vector<WeightSection> other_contents() const override { return last().other_contents(); }
  std::vector<std::filesystem::path> files() const override {
    std::vector<std::filesystem::path> all;
    for (const auto& file : files_) std::ranges::copy(file->files(), std::back_inserter(all));
    return all;
  }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    const std::size_t bytes = find_safetensors_dtype(tensor.stored_dtype)->bytes();
    MOH_CHECK(offset % bytes == 0 && to.size() % bytes == 0, "whole elements of a mean are read");
    const std::size_t count = to.size() / bytes;
    std::vector<float> sums(count, 0.0F), values(count);
    const ConvertElements widen = find_conversion(tensor.stored_dtype, kSumType);
    for (const auto& file : files_) {
      file->read(*file->find(tensor.name), offset, to);
      widen(to.data(), as_bytes(values), count);
      for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
    }
    for (float& sum : sums) sum /= static_cast<float>(files_.size());
    find_conversion(kSumType, tensor.stored_dtype)(as_bytes(sums), to.data(), count);
  }

 private:
  static constexpr std::string_view kSumType = "F32";

  const WeightFile& last() const { return *files_.back(); }
  static std::byte* as_bytes(std::vector<float>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  }
  void check_type(const WeightInfo& tensor) const {
    const std::string_view type = tensor.stored_dtype;
    if (type == "F32" || type == "BF16" || type == "F16") return;
    throw CheckpointError(error_message("average of weights: " + path().string(), printable(tensor.name),
                                        "F32, BF16 or F16", type));
  }

  std::vector<std::unique_ptr<WeightFile>> files_;
};

}  // namespace

std::unique_ptr<WeightFile> averaged(std::vector<std::unique_ptr<WeightFile>> files) {
  return std::make_unique<AveragedWeights>(std::move(files));
}

}  // namespace moh
