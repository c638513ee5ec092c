#include "train/families/diffusion/sampling/guided_model.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace moh {

namespace {

/// `count` times the rows of x, one after the other.
Tensor repeated(const Tensor& x, std::int64_t count) {
  std::vector<std::int64_t> extents(x.shape().extents().begin(), x.shape().extents().end());
  const std::int64_t rows = extents.at(0);
  extents[0] = count * rows;
  Tensor result = empty(Shape(extents), x.dtype());
  for (std::int64_t i = 0; i < count; ++i) result.slice(i * rows, (i + 1) * rows).copy_from(x);
  return result;
}

}  // namespace

GuidedModel::GuidedModel(const Dit& model, const SampleOptions& options) : model_(model), options_(options) {
  const std::int64_t channels = model.config().channels;
  if (options.guided_channels >= 0 && options.guided_channels <= channels) return;
  throw ValueError(error_message("sample", "guided channels", "at most " + std::to_string(channels),
                                 std::to_string(options.guided_channels)));
}

Tensor GuidedModel::labels_tensor(std::span<const std::int64_t> labels, bool guided) const {
  const std::int64_t count = std::ssize(labels);
  Tensor result = full({guided ? 2 * count : count}, static_cast<double>(config().no_class()), DType::kInt64);
  if (options_.labels) std::ranges::copy(labels, result.data<std::int64_t>());
  return result;
}

Tensor GuidedModel::prediction(const Tensor& x, std::span<const std::int64_t> labels, const Tensor& time,
                               double level) const {
  const std::int64_t count = x.dim(0);
  const auto [low, high] = options_.guided_levels;
  const bool within = (level > low || low == 0) && level <= high;
  const bool guided = options_.guidance != 1.0 && within;
  const Tensor images = guided ? repeated(x, 2) : x;
  const Device device = model_.device();
  const DitInput input{Variable(images.to(model_.dtype()).to(device)),
                       repeated(time, images.dim(0)).to(device), labels_tensor(labels, guided).to(device)};
  Tensor predicted = model_.forward(input).prediction.value().to(kCpu).to(DType::kFloat32);
  if (!guided) return predicted;
  guide(predicted.slice(0, count), predicted.slice(count, 2 * count), options_.guided_channels,
        options_.guidance);
  return predicted.slice(0, count);
}

}  // namespace moh
