#include "tests/train/weights/checkpoint/sample_checkpoint.h"

#include <algorithm>

#include "train/base/formats/element_blocks.h"
#include "train/base/io/file_ops.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

std::vector<const NamedTensor*> by_name(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& named : tensors) sorted.push_back(&named);
  std::ranges::sort(sorted, std::less<>(), [](const NamedTensor* named) { return named->name; });
  return sorted;
}

bool same_tensors(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  return std::ranges::equal(by_name(a), by_name(b), [](const NamedTensor* x, const NamedTensor* y) {
    return x->name == y->name && x->tensor.shape() == y->tensor.shape() &&
           x->tensor.dtype() == y->tensor.dtype() &&
           std::ranges::equal(bytes_of(x->tensor), bytes_of(y->tensor));
  });
}

std::vector<NamedTensor> tensors_like(std::span<const StoredTensors> stored) {
  std::vector<NamedTensor> tensors;
  for (const StoredTensors& each : stored) {
    for (const WeightInfo& tensor : each.tensors())
      tensors.push_back({tensor.name, empty(tensor.shape, each.dtype_of(tensor))});
  }
  return tensors;
}

}  // namespace

CheckpointContents contents_of(const StoredCheckpoint& checkpoint) {
  checkpoint.verify();
  CheckpointContents contents{.step = checkpoint.step(),
                              .metric = checkpoint.metric(),
                              .model = tensors_like(checkpoint.model()),
                              .average = tensors_like(checkpoint.average()),
                              .optimizer = tensors_like(checkpoint.optimizer()),
                              .trainer_json = checkpoint.trainer_json(),
                              .config_yaml = checkpoint.config_yaml()};
  load_exactly("model", checkpoint.model(), contents.model);
  load_exactly("average", checkpoint.average(), contents.average);
  load_exactly("optimizer", checkpoint.optimizer(), contents.optimizer);
  return contents;
}

CheckpointContents read_checkpoint(const std::filesystem::path& step_folder) {
  return contents_of(StoredCheckpoint(step_folder));
}

CheckpointContents sample_checkpoint(std::int64_t step) {
  const auto value = static_cast<float>(step);
  CheckpointContents contents;
  contents.step = step;
  contents.model = {{"layers.0.wq", tensor_of<float>({2, 3}, {value, 1, 2, 3, 4, 5})},
                    {"layers.0.wo", tensor_of<bfloat16>({3}, {bfloat16(value), bfloat16(1), bfloat16(2)})},
                    {"none", empty({0, 4}, DType::kFloat32)}};
  contents.optimizer = {{"exp_avg.layers.0.wq", tensor_of<float>({2, 3}, {5, 4, 3, 2, 1, value})},
                        {"steps", tensor_of<std::int64_t>(Shape{}, {step})}};
  contents.trainer_json = "{\"step\":" + std::to_string(step) + "}";
  contents.config_yaml = "train:\n  steps: 100\n";
  return contents;
}

bool same_checkpoint(const CheckpointContents& a, const CheckpointContents& b) {
  return a.step == b.step && a.metric == b.metric && a.trainer_json == b.trainer_json &&
         a.config_yaml == b.config_yaml && same_tensors(a.model, b.model) &&
         same_tensors(a.average, b.average) && same_tensors(a.optimizer, b.optimizer);
}

bool same_checkpoint(const StoredCheckpoint& a, const CheckpointContents& b) {
  return same_checkpoint(contents_of(a), b);
}

StoreUnderTest::StoreUnderTest(const std::filesystem::path& run_folder, RetentionPolicy retention)
    : store(run_folder, retention, [this](const std::string& warning) { warnings.push_back(warning); }) {}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& path : list_directory(folder)) names.push_back(path.filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace moh
