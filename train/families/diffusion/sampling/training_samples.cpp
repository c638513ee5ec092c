#include "train/families/diffusion/sampling/training_samples.h"

#include <vector>

#include "train/base/formats/pictures/encode_png.h"
#include "train/families/diffusion/sampling/picture_sampler.h"

namespace moh {

std::optional<std::string> draw_training_samples(const Dit& model, const Autoencoder* autoencoder,
                                                 const TrainingSamples& sample, std::uint64_t seed,
                                                 StopEvaluation stop, Communicator& processes) {
  constexpr int kColumns = 8;
  const DitConfig& c = model.config();
  if (sample.pictures == 0 || (c.channels != Picture::kChannels && autoencoder == nullptr)) return "";
  SampleOptions options = sample.options;
  options.seed = seed;
  options.reverse.clip_start = clips_usually(options.objective, c);
  const PictureSampler sampler(model, options, autoencoder);
  std::vector<std::int64_t> numbers, labels;
  for (std::int64_t n = 0; n < sample.pictures; ++n) {
    numbers.push_back(n);
    labels.push_back(n % c.classes);
  }
  EvaluationProgress progress{.total = sampler.steps()};
  const auto ask = [&] {
    const bool stopped = stop(progress);
    ++progress.done;
    return stopped;
  };
  const Tensor all = sample_together(sampler, numbers, labels, ask, processes);
  if (!all.defined()) return std::nullopt;
  std::vector<Picture> pictures;
  for (std::int64_t n = 0; n < sample.pictures; ++n) pictures.push_back(to_picture(all.select(n)));
  return encode_png(picture_grid(pictures, kColumns));
}

}  // namespace moh
