#include "train/families/diffusion/diffusion_analysis.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/families/diffusion/diffusion_batch.h"
#include "train/families/diffusion/diffusion_data.h"
#include "train/families/images/analyzed_pictures.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

constexpr std::int64_t kQuarters = 4;

/// A picture at a step of the process.
struct NoisyPicture {
  AnalyzedPicture picture;
  std::int64_t step = 0;
};

/// `count` of the pictures, spread evenly over all of them, at steps spread over each quarter of the process.
void add_quarters(std::vector<NoisyPicture>& items, std::vector<AnalyzedSource>& sources, std::int64_t most) {
  const auto available = std::ssize(items), count = std::min(available, most);
  constexpr std::int64_t kSteps = kDiffusionSteps / kQuarters;
  for (std::int64_t quarter = 0; quarter < kQuarters; ++quarter) {
    const std::int64_t first = quarter * kSteps;
    const auto source = static_cast<std::int32_t>(sources.size());
    sources.push_back(
        {"steps " + std::to_string(first) + " to " + std::to_string(first + kSteps - 1), count, available});
    for (std::int64_t i = 0; i < count; ++i) {
      NoisyPicture item = items[static_cast<std::size_t>(i * available / count)];
      item.picture.source = source;
      item.step = first + i * kSteps / count;
      items.push_back(std::move(item));
    }
  }
}

/// Makes passes of at most `batch` pictures: a row of each has its noisy values, its step and its label.
class NoisyPasses {
 public:
  NoisyPasses(std::vector<NoisyPicture> items, const DiffusionRun& run, std::int64_t batch,
              std::int64_t compared)
      : items_(std::move(items)), samples_(run.model, run.diffusion), batch_(batch), compared_(compared) {}

  std::int64_t size() const { return (std::ssize(items_) + batch_ - 1) / batch_; }

  AnalysisPass at(std::int64_t pass) const {
    const std::int64_t begin = pass * batch_,
                       end = std::min<std::int64_t>(begin + batch_, std::ssize(items_)), count = end - begin;
    DiffusionBatch batch = samples_.begin(count);
    AnalysisPass result;
    for (std::int64_t row = 0; row < count; ++row) {
      const NoisyPicture& item = items_[static_cast<std::size_t>(begin + row)];
      make(batch, row, item);
      result.sources.push_back(item.picture.source);
      result.for_similarity.push_back(begin + row < compared_);
    }
    result.inputs = packed(batch);
    return result;
  }

 private:
  void make(DiffusionBatch& batch, std::int64_t row, const NoisyPicture& item) const {
    const auto& starts = static_cast<const HeldOutStarts&>(*item.picture.pictures);
    starts.make(item.picture.index, NoisySamples::start_of(batch, row));
    batch.labels.data<std::int64_t>()[row] = starts.label(item.picture.index);
    samples_.make_at(batch, row, item.step, held_out_key(item.picture.index));
  }

  static Tensor packed(const DiffusionBatch& batch) {
    const std::int64_t count = batch.steps.dim(0),
                       values = count > 0 ? batch.targets.sample.numel() / count : 0;
    const Tensor steps = batch.steps.to(DType::kFloat32);
    const std::int64_t times = count > 0 ? steps.numel() / count : 0, width = values + times + 1;
    Tensor rows = empty({count, width}, DType::kFloat32);
    for (std::int64_t row = 0; row < count; ++row) {
      float* to = rows.data<float>() + row * width;
      std::copy_n(batch.targets.sample.data<float>() + row * values, values, to);
      std::copy_n(steps.data<float>() + row * times, times, to + values);
      to[width - 1] = static_cast<float>(batch.labels.data<std::int64_t>()[row]);
    }
    return rows;
  }

  std::vector<NoisyPicture> items_;
  NoisySamples samples_;
  std::int64_t batch_, compared_;
};

/// The model's input of the rows of a pass. Labels of files that are not of the model's classes are none, and
/// so are all of a model that was trained without (`labelled` false).
DitInput unpacked(const Tensor& rows, const Dit& model, bool labelled) {
  const DitConfig& c = model.config();
  const std::int64_t count = rows.dim(0), values = c.channels * c.image_size * c.image_size,
                     times = rows.dim(1) - values - 1;
  const Tensor images = empty({count, c.channels, c.image_size, c.image_size}, DType::kFloat32);
  const Tensor steps = empty({count, times}, DType::kFloat32), labels = empty({count}, DType::kInt64);
  for (std::int64_t row = 0; row < count; ++row) {
    const float* from = rows.data<float>() + row * rows.dim(1);
    std::copy_n(from, values, images.data<float>() + row * values);
    std::copy_n(from + values, times, steps.data<float>() + row * times);
    const std::int64_t none = model.config().no_class();
    labels.data<std::int64_t>()[row] =
        labelled ? std::min(static_cast<std::int64_t>(from[values + times]), none) : none;
  }
  const Device device = model.device();
  const Tensor given = times == 1 ? steps.reshape({count}).to(DType::kInt64) : steps;
  return {Variable(images.to(model.dtype()).to(device)), given.to(device), labels.to(device)};
}

}  // namespace

AnalysisInputs analysis_of_noisy_pictures(const RunConfig& run, const Dit& model,
                                          std::span<const AnalyzedFiles> files,
                                          const AnalyzeOptions& options) {
  refuse_text_options(options);
  const DiffusionRun& own = diffusion_run(run);
  const DitConfig& c = own.model;
  std::int64_t heads = 0;
  for (std::int64_t i = 0; i < c.layers; ++i) heads = std::max(heads, c.heads.at(i));
  AnalysisInputs inputs{.options = options,
                        .model = {.layers = c.layers,
                                  .hidden = c.hidden,
                                  .heads = heads,
                                  .kv_heads = heads,
                                  .head_dim = c.head_width()},
                        .unit = "images"};
  if (inputs.options.batch_size == 0) inputs.options.batch_size = run.train.batch_size;
  const std::int64_t side = c.image_size / c.patch_size, tokens = side * side;
  const std::int64_t most = options.max_tokens == 0 ? std::int64_t{1} << 40
                                                    : std::max<std::int64_t>(1, options.max_tokens / tokens);
  const auto held_out = [&] { return open_diffusion_data(run, DataUse::kEvaluation)->validation; };
  const auto open = [&](const std::vector<std::string>& paths) { return open_held_out(own, paths); };
  std::vector<NoisyPicture> items;
  for (AnalyzedPicture& picture : analyzed_pictures(files, open, held_out, most, inputs))
    items.push_back({std::move(picture), std::ssize(items) * 617 % kDiffusionSteps});
  const std::int64_t compared = std::min(std::ssize(items), options.similarity_tokens / tokens);
  add_quarters(items, inputs.sources, most);
  inputs.similarity_tokens = compared * tokens;
  const auto passes =
      std::make_shared<const NoisyPasses>(std::move(items), own, inputs.options.batch_size, compared);
  inputs.num_passes = passes->size();
  inputs.pass = [passes](std::int64_t index) { return passes->at(index); };
  const bool labelled = own.diffusion.label_dropout < 1;
  inputs.forward = [&model, labelled](const Tensor& rows, const ForwardContext& context) {
    model.forward(unpacked(rows, model, labelled), context);
  };
  return inputs;
}

}  // namespace moh
