#include "train/weights/merged_weights.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "models/llm/lora.h"
#include "ops/linalg/matmul.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kWide = "F32";

std::string_view without(std::string_view name, std::string_view suffix) {
  return name.substr(0, name.size() - suffix.size());
}

class MergedWeights final : public WeightFile {
 public:
  MergedWeights(std::unique_ptr<WeightFile> weights, double scale, std::string_view dtype)
      : weights_(std::move(weights)), scale_(scale) {
    std::vector<WeightInfo> listed;
    for (const WeightInfo& tensor : weights_->tensors()) {
      const std::string_view name = tensor.name;
      if (name.ends_with(kLoraDown) || name.ends_with(kLoraUp)) {
        require_partners(without(name, name.ends_with(kLoraDown) ? kLoraDown : kLoraUp));
        continue;
      }
      listed.push_back(tensor);
      if (!name.ends_with(".weight")) continue;
      const std::string map(without(name, ".weight"));
      const WeightInfo* down = weights_->find(map + std::string(kLoraDown));
      if (down == nullptr) continue;
      const Merge merge{&tensor, down, weights_->find(map + std::string(kLoraUp))};
      check(merge);
      if (!dtype.empty()) {
        listed.back().stored_dtype = dtype;
        listed.back().bytes =
            find_safetensors_dtype(dtype)->bytes() * static_cast<std::uint64_t>(tensor.shape.numel());
      }
      merges_.emplace(name, merge);
    }
    metadata_ = weights_->metadata();
    set_tensors(std::move(listed));
  }

  const std::filesystem::path& path() const override { return weights_->path(); }
  std::string format() const override { return weights_->format() + ", adapters merged"; }
  std::vector<WeightSection> other_contents() const override { return weights_->other_contents(); }
  std::vector<std::filesystem::path> files() const override { return weights_->files(); }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    const auto found = merges_.find(tensor.name);
    if (found == merges_.end()) return weights_->read(*weights_->find(tensor.name), offset, to);
    const std::size_t bytes = find_safetensors_dtype(tensor.stored_dtype)->bytes();
    MOH_CHECK(offset % bytes == 0 && to.size() % bytes == 0, "whole elements of a sum are read");
    const std::size_t count = to.size() / bytes;
    const Tensor sums =
        elements(found->second, static_cast<std::int64_t>(offset / bytes), static_cast<std::int64_t>(count));
    find_conversion(kWide, tensor.stored_dtype)(bytes_of(sums).data(), to.data(), count);
  }

 private:
  struct Merge {
    const WeightInfo *weight, *down, *up;
  };

  void require_partners(std::string_view map) const {
    for (const std::string_view suffix : {std::string_view(".weight"), kLoraDown, kLoraUp}) {
      const std::string name = std::string(map) + std::string(suffix);
      if (weights_->find(name) == nullptr)
        throw CheckpointError(error_message(path().string(), printable(name), "a tensor", "none",
                                            "an adapter has two matrices beside the weight"));
    }
  }
  void check(const Merge& merge) const {
    const auto& [weight, down, up] = merge;
    for (const WeightInfo* tensor : {weight, down, up}) {
      const std::string_view type = tensor->stored_dtype;
      if (type != "F32" && type != "BF16" && type != "F16")
        throw CheckpointError(
            error_message(path().string(), printable(tensor->name), "F32, BF16 or F16", type));
      if (tensor->shape.rank() != 2)
        throw CheckpointError(
            error_message(path().string(), printable(tensor->name), "a matrix", to_string(tensor->shape)));
    }
    const Shape product{up->shape[0], down->shape[1]};
    if (up->shape[1] != down->shape[0] || product != weight->shape)
      throw CheckpointError(
          error_message(path().string(), printable(weight->name),
                        "the shape of B A, " + to_string(up->shape) + " times " + to_string(down->shape),
                        to_string(weight->shape)));
  }
  /// Elements [begin, begin + count) of a tensor of the file, in float32.
  Tensor wide(const WeightInfo& tensor, std::int64_t begin, std::int64_t count) const {
    const std::size_t bytes = find_safetensors_dtype(tensor.stored_dtype)->bytes();
    std::vector<std::byte> block(static_cast<std::size_t>(count) * bytes);
    weights_->read(tensor, static_cast<std::uint64_t>(begin) * bytes, block);
    Tensor values = empty({count}, DType::kFloat32);
    find_conversion(tensor.stored_dtype, kWide)(
        block.data(), reinterpret_cast<std::byte*>(values.data<float>()), static_cast<std::size_t>(count));
    return values;
  }
  /// Elements of W + scale * B A. Rows of which they are a part are multiplied whole.
  Tensor elements(const Merge& merge, std::int64_t begin, std::int64_t count) const {
    Tensor sums = wide(*merge.weight, begin, count);
    if (count == 0) return sums;
    const std::int64_t rank = merge.down->shape[0], width = merge.down->shape[1];
    const std::int64_t first = begin / width, rows = (begin + count - 1) / width + 1 - first;
    const Tensor a = wide(*merge.down, 0, rank * width).reshape({rank, width});
    const Tensor b = wide(*merge.up, first * rank, rows * rank).reshape({rows, rank});
    for (float& value : b.span<float>()) value *= static_cast<float>(scale_);
    const Tensor products = matmul(b, a, DType::kFloat32);
    const float* added = products.data<float>() + (begin - first * width);
    for (float& sum : sums.span<float>()) sum += *added++;
    return sums;
  }

  std::unique_ptr<WeightFile> weights_;
  double scale_;
  std::map<std::string, Merge, std::less<>> merges_;
};

}  // namespace

std::unique_ptr<WeightFile> merged(std::unique_ptr<WeightFile> weights, double scale,
                                   std::string_view dtype) {
  return std::make_unique<MergedWeights>(std::move(weights), scale, dtype);
}

}  // namespace moh
