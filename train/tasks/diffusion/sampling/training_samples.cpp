#include "train/tasks/diffusion/sampling/training_samples.h"

#include <algorithm>
#include <vector>

#include "train/formats/pictures/encode_png.h"
#include "train/tasks/diffusion/sampling/picture_sampler.h"

namespace moh {

std::optional<std::string> draw_training_samples(const Dit& model, const TrainingSamples& sample,
                                                 std::uint64_t seed, StopEvaluation stop,
                                                 Communicator& processes) {
  constexpr std::int64_t kPixelChannels = Picture::kChannels;
  constexpr int kColumns = 8;
  const DitConfig& c = model.config();
  if (sample.pictures == 0 || c.channels != kPixelChannels) return "";
  SampleOptions options = sample.options;
  options.seed = seed;
  const PictureSampler sampler(model, options);
  // Each process draws as many as the others, so that all ask `stop` alike: the last ones maybe once more.
  const std::int64_t own = (sample.pictures + processes.size() - 1) / processes.size();
  std::vector<std::int64_t> numbers, labels;
  for (std::int64_t i = 0; i < own; ++i) {
    numbers.push_back(std::min(processes.rank() * own + i, sample.pictures - 1));
    labels.push_back(numbers.back() % c.classes);
  }
  EvaluationProgress progress{.total = sampler.steps()};
  const Tensor part = sampler.sample(numbers, labels, [&] {
    const bool stopped = stop(progress);
    ++progress.done;
    return stopped;
  });
  if (!part.defined()) return std::nullopt;
  const Tensor all = empty({processes.size(), own, c.channels, c.image_size, c.image_size}, DType::kFloat32);
  processes.all_gather(part, all);
  std::vector<Picture> pictures;
  for (std::int64_t n = 0; n < sample.pictures; ++n)
    pictures.push_back(to_picture(all.select(n / own).select(n % own)));
  return encode_png(picture_grid(pictures, kColumns));
}

}  // namespace moh
