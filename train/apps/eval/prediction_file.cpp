#include "train/apps/eval/prediction_file.h"

#include <algorithm>
#include <limits>

namespace moh {

namespace {

std::vector<std::int64_t> elements_of(std::span<const PredictedArray> each) {
  std::vector<std::int64_t> elements;
  for (const PredictedArray& array : each) elements.push_back(array.values.numel());
  return elements;
}

std::vector<NpzArray> layout_of(std::span<const std::string> files, std::span<const PredictedArray> each) {
  const auto count = static_cast<std::int64_t>(files.size());
  std::size_t longest = 1;  // in bytes, which are no fewer than characters
  for (const std::string& file : files) longest = std::max(longest, file.size());
  std::vector<NpzArray> arrays = {{.name = "files",
                                   .shape = {count},
                                   .type = NpzArray::Type::kText,
                                   .characters = static_cast<std::int64_t>(longest)}};
  for (const PredictedArray& array : each) {
    NpzArray rows{.name = array.name, .shape = {count}};
    for (const std::int64_t extent : array.values.shape().extents()) rows.shape.push_back(extent);
    arrays.push_back(std::move(rows));
  }
  return arrays;
}

}  // namespace

PredictionFile::PredictionFile(const std::filesystem::path& path, std::span<const std::string> files,
                               std::span<const PredictedArray> each)
    : elements_(elements_of(each)), npz_(path, layout_of(files, each)) {
  for (const std::string& file : files) npz_.write(0, file);
}

void PredictionFile::add(std::span<const PredictedArray> arrays) {
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    const std::vector<float> none(arrays.empty() ? static_cast<std::size_t>(elements_[i]) : 0,
                                  std::numeric_limits<float>::quiet_NaN());
    npz_.write(i + 1, arrays.empty() ? std::span<const float>(none)
                                     : std::span<const float>(arrays[i].values.span<float>()));
  }
}

}  // namespace moh
