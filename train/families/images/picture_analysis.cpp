#include "train/families/images/picture_analysis.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/families/images/analyzed_pictures.h"
#include "train/families/images/image_data.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

/// Tokens of an image on the finest grid of the model.
std::int64_t tokens_of_image(const ImageRun& run) {
  const std::int64_t side = run.settled_data().image_size;
  const bool vit = run.model.architecture == ImageArchitecture::kVit;
  const std::int64_t patch = vit ? run.model.vit.patch_size : run.model.transnext.patch_size;
  return std::max<std::int64_t>(1, (side / patch) * (side / patch));
}

AnalyzedModel sizes_of(const ImageModelConfig& c) {
  if (c.architecture == ImageArchitecture::kVit) {
    const VitConfig& vit = c.vit;
    return {.layers = vit.layers,
            .hidden = vit.hidden,
            .heads = vit.heads,
            .kv_heads = vit.heads,
            .head_dim = vit.hidden / vit.heads};
  }
  const TransNextConfig& t = c.transnext;
  const auto widest = static_cast<std::size_t>(std::ranges::max_element(t.heads) - t.heads.begin());
  return {.layers = num_blocks(t),
          .hidden = t.dims[widest],
          .heads = t.heads[widest],
          .kv_heads = t.heads[widest],
          .head_dim = t.dims[widest] / t.heads[widest],
          .stages = t.depths};
}

/// Makes the images of passes of at most `batch` of them.
class Passes {
 public:
  Passes(std::vector<AnalyzedPicture> items, const EvaluationView& view, std::int64_t batch,
         std::int64_t compared)
      : items_(std::move(items)),
        view_(view),
        normalizer_(view.normalize),
        batch_(batch),
        compared_(compared) {}

  std::int64_t size() const { return (std::ssize(items_) + batch_ - 1) / batch_; }

  AnalysisPass at(std::int64_t pass) const {
    const std::int64_t begin = pass * batch_,
                       end = std::min<std::int64_t>(begin + batch_, std::ssize(items_));
    AnalysisPass result;
    result.inputs = empty({end - begin, view_.crop, view_.crop, Picture::kChannels}, DType::kFloat32);
    std::vector<std::byte> bytes;
    for (std::int64_t i = begin; i < end; ++i) {
      const AnalyzedPicture& item = items_[static_cast<std::size_t>(i)];
      const auto& pictures = static_cast<const PictureSource&>(*item.pictures);
      pictures.load(item.index, bytes);
      const Tensor row = result.inputs.select(i - begin);
      make_evaluation_picture(view_, normalizer_, pictures, item.index, bytes, row.span<float>());
      result.sources.push_back(item.source);
      result.for_similarity.push_back(i < compared_);
    }
    return result;
  }

 private:
  std::vector<AnalyzedPicture> items_;
  EvaluationView view_;
  ChannelNormalizer normalizer_;
  std::int64_t batch_, compared_;
};

}  // namespace

AnalysisInputs analysis_of_pictures(const RunConfig& run, const ImageModel& model,
                                    std::span<const AnalyzedFiles> files, const AnalyzeOptions& options) {
  refuse_text_options(options);
  const ImageRun& images = image_run(run);
  AnalysisInputs inputs{.options = options, .model = sizes_of(images.model), .unit = "images"};
  if (inputs.options.batch_size == 0) inputs.options.batch_size = run.train.batch_size;
  const std::int64_t tokens = tokens_of_image(images);
  const std::int64_t most = options.max_tokens == 0 ? std::int64_t{1} << 62
                                                    : std::max<std::int64_t>(1, options.max_tokens / tokens);
  const auto held_out = [&] { return open_image_data(run, DataUse::kEvaluation)->validation; };
  const auto open = [](const std::vector<std::string>& paths) { return open_pictures(paths); };
  std::vector<AnalyzedPicture> items = analyzed_pictures(files, open, held_out, most, inputs);
  const std::int64_t compared = std::min(std::ssize(items), options.similarity_tokens / tokens);
  inputs.similarity_tokens = compared * tokens;
  const auto passes = std::make_shared<const Passes>(
      std::move(items), evaluation_view_of(images.settled_data()), inputs.options.batch_size, compared);
  inputs.num_passes = passes->size();
  inputs.pass = [passes](std::int64_t index) { return passes->at(index); };
  inputs.forward = [&model](const Tensor& pictures, const ForwardContext& context) {
    model.forward(Variable(pictures.to(model.dtype()).to(model.device())), context);
  };
  return inputs;
}

}  // namespace moh
