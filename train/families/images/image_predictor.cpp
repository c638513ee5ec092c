#include "train/families/images/image_predictor.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/families/images/image_data.h"

namespace moh {

namespace {

/// Probabilities of logits [1, classes]. Throws NumericError for those that are not finite.
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

class ImagePredictor final : public Predictor {
 public:
  ImagePredictor(const ImageRun& run, const ImageModel& model)
      : view_(evaluation_view_of(run.settled_data())),
        normalizer_(view_.normalize),
        names_(class_names_of(run)),
        model_(model) {}

  std::vector<Prediction> predict(const std::filesystem::path& file, std::int64_t top) const override {
    const NoGrad no_grad;
    std::vector<std::byte> bytes;
    read_picture_file(file, bytes);
    const Tensor picture = empty({1, view_.crop, view_.crop, Picture::kChannels}, DType::kFloat32);
    make_evaluation_picture(view_, normalizer_, bytes, printable_path(file), picture.span<float>());
    const Variable logits = model_.forward(Variable(picture.to(model_.dtype()).to(model_.device()))).logits;
    const std::vector<double> shares =
        softmax_of(logits.value().to(kCpu).to(DType::kFloat32), printable_path(file));
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

 private:
  EvaluationView view_;
  ChannelNormalizer normalizer_;
  std::vector<std::string> names_;
  const ImageModel& model_;
};

}  // namespace

std::unique_ptr<Predictor> image_predictor(const RunConfig& run, const ImageModel& model) {
  return std::make_unique<ImagePredictor>(image_run(run), model);
}

}  // namespace moh
