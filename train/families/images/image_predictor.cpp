#include "train/families/images/image_predictor.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/families/images/image_data.h"
#include "train/families/images/picture_reader.h"

namespace moh {

namespace {

/// Probabilities of logits [classes]. Throws NumericError for those that are not finite.
std::vector<double> softmax_of(const Tensor& logits, const std::string& name) {
  const std::span<const float> row = logits.span<float>();
  const double top = *std::ranges::max_element(row);
  std::vector<double> shares;
  for (const float logit : row) {
    if (!std::isfinite(logit))
      throw NumericError(error_message("predict", name, "logits that are finite", std::to_string(logit)));
    shares.push_back(std::exp(static_cast<double>(logit) - top));
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

/// The names of the model's blocks, which are those of its parameters.
std::vector<std::string> block_names(const ImageModelConfig& model) {
  std::vector<std::string> names;
  if (model.architecture == ImageArchitecture::kVit) {
    for (std::int64_t i = 0; i < model.vit.layers; ++i) names.push_back("blocks." + std::to_string(i));
    return names;
  }
  for (std::size_t stage = 0; stage < model.transnext.depths.size(); ++stage) {
    for (std::int64_t i = 0; i < model.transnext.depths[stage]; ++i)
      names.push_back("block" + std::to_string(stage + 1) + "." + std::to_string(i));
  }
  return names;
}

/// [1, height, width, D] as [D, height, width]; tokens [1, N, D] as [N, D].
Tensor features_of(const Tensor& last) {
  if (last.rank() == 3) return last.select(0);
  const std::int64_t tokens = last.dim(1) * last.dim(2), width = last.dim(3);
  Tensor image = empty({width, last.dim(1), last.dim(2)}, DType::kFloat32);
  for (std::int64_t i = 0; i < image.numel(); ++i)
    image.data<float>()[i] = last.data<float>()[i % tokens * width + i / tokens];
  return image;
}

class ImagePredictor final : public Predictor {
 public:
  ImagePredictor(const ImageRun& run, const ImageModel& model)
      : reader_(run), names_(class_names_of(run)), blocks_(block_names(run.model)), model_(model) {}

  std::vector<Prediction> predict(const std::filesystem::path& file, std::int64_t top,
                                  std::span<const std::string> features,
                                  std::vector<PredictedArray>* arrays) const override {
    std::vector<PredictedArray> made = arrays_of(reader_.read({&file, 1}), features);
    const std::vector<double> shares = softmax_of(made.front().values, printable_path(file));
    if (arrays != nullptr) *arrays = std::move(made);
    std::vector<std::int64_t> order(shares.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::int64_t i) { return shares[static_cast<std::size_t>(i)]; });
    std::vector<Prediction> predictions;
    for (std::size_t i = 0; i < std::min(order.size(), static_cast<std::size_t>(top)); ++i) {
      const auto label = static_cast<std::size_t>(order[i]);
      predictions.push_back({names_[label], order[i], shares[label]});
    }
    return predictions;
  }

  std::vector<PredictedArray> arrays(std::span<const std::string> features) const override {
    for (std::size_t i = 0; i < features.size(); ++i) {
      const bool known = features[i] == kPooled || features[i] == kTokens ||
                         std::ranges::find(blocks_, features[i]) != blocks_.end();
      const bool again = std::ranges::count(features.first(i), features[i]) > 0;
      if (!known || again)
        throw ConfigError(error_message("--features", "",
                                        "pooled, tokens, or blocks of the model, " + blocks_.front() +
                                            " to " + blocks_.back() + ", each once",
                                        printable(features[i]) + (again ? " twice" : "")));
    }
    const Tensor picture = empty({1, reader_.side(), reader_.side(), Picture::kChannels}, DType::kFloat32);
    picture.fill(0);
    return arrays_of(picture, features);
  }

 private:
  static constexpr std::string_view kPooled = "pooled", kTokens = "tokens";

  /// The logits, then the features, of a picture [1, H, W, C].
  std::vector<PredictedArray> arrays_of(const Tensor& picture, std::span<const std::string> features) const {
    const NoGrad no_grad;
    const Variable images(picture.to(model_.dtype()).to(model_.device()));
    ImageTokens tokens;
    const ImageOutput output =
        features.empty() ? model_.forward(images) : model_.forward_with_tokens(images, tokens);
    const auto on_host = [](const Tensor& values) { return values.to(kCpu).to(DType::kFloat32); };
    std::vector<PredictedArray> arrays = {{"logits", on_host(output.logits.value()).select(0)}};
    for (const std::string& name : features) {
      const auto block = static_cast<std::size_t>(std::ranges::find(blocks_, name) - blocks_.begin());
      arrays.push_back({name, name == kPooled   ? on_host(output.features.value()).select(0)
                              : name == kTokens ? features_of(on_host(tokens.last))
                                                : on_host(tokens.after_blocks.at(block)).select(0)});
    }
    return arrays;
  }

  PictureReader reader_;
  std::vector<std::string> names_, blocks_;
  const ImageModel& model_;
};

}  // namespace

std::unique_ptr<Predictor> image_predictor(const RunConfig& run, const ImageModel& model) {
  return std::make_unique<ImagePredictor>(image_run(run), model);
}

}  // namespace moh
