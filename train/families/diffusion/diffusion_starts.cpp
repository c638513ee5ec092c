#include "train/families/diffusion/diffusion_starts.h"

#include <utility>
#include <vector>

#include "core/random.h"

namespace moh {

namespace {

// A stream for each sample, apart from those of its noise and step (NoisySamples) and of pictures.
constexpr std::uint64_t kLatentStream = std::uint64_t{3} << 55;
/// Element of a stream with which the noise begins, after the number that says which view it is.
constexpr std::uint64_t kFirstNoiseOfLatent = 16;

RandomKey latent_key(std::uint64_t seed, std::int64_t number) {
  return {seed, kLatentStream | static_cast<std::uint64_t>(number)};
}

/// A picture [size, size, 3] by channels, [3, size, size].
void by_channel(std::span<const float> from, std::span<float> to) {
  constexpr std::size_t kChannels = Picture::kChannels;
  const std::size_t pixels = from.size() / kChannels;
  for (std::size_t j = 0; j < to.size(); ++j) to[j] = from[j % pixels * kChannels + j / pixels];
}

/// Room for the numbers of one sample; of each thread, so that its memory is reused.
std::span<float> scratch(std::size_t count) {
  thread_local std::vector<float> buffer;
  buffer.resize(count);
  return buffer;
}

/// A draw from the distribution of a picture's latents, times their scaling factor.
void draw(const LatentSource& latents, std::int64_t index, LatentView view, RandomKey key,
          std::span<float> to) {
  const std::size_t count = to.size();
  const std::span<float> deviation = scratch(2 * count).first(count), noise = scratch(2 * count).last(count);
  latents.read(index, view, to, deviation);
  random_normals(key, kFirstNoiseOfLatent, noise);
  const auto factor = static_cast<float>(latents.scaling_factor());
  for (std::size_t i = 0; i < count; ++i) to[i] = (to[i] + deviation[i] * noise[i]) * factor;
}

class PictureStarts final : public TrainingStarts {
 public:
  explicit PictureStarts(TrainingPictures pictures) : pictures_(std::move(pictures)) {}

  const SampleOrder& order() const override { return pictures_.order(); }
  std::int64_t make(std::int64_t sample, std::span<float> start) const override {
    const std::span<float> pixels = scratch(start.size());
    const std::int64_t label = pictures_.make_one(sample, pixels);
    by_channel(pixels, start);
    return label;
  }

 private:
  TrainingPictures pictures_;
};

class LatentStarts final : public TrainingStarts {
 public:
  LatentStarts(LatentSourcePtr latents, const SampleOrder& order, LatentSampling sampling)
      : latents_(std::move(latents)), order_(order), sampling_(std::move(sampling)) {}

  const SampleOrder& order() const override { return order_; }
  std::int64_t make(std::int64_t sample, std::span<float> start) const override {
    const RandomKey key = latent_key(sampling_.seed, sample);
    const LatentView view =
        random_uniform(key, 0) < sampling_.flip ? LatentView::kMirrored : LatentView::kPlain;
    const auto make = [&](std::int64_t index) { draw(*latents_, index, view, key, start); };
    return latents_->label(first_sound(order_.picture_of(sample), latents_->size(), sampling_.on_error,
                                       sampling_.broken.get(), make));
  }

 private:
  LatentSourcePtr latents_;
  SampleOrder order_;
  LatentSampling sampling_;
};

/// The labels and names of another source.
template <class Source>
class HeldOutOf : public HeldOutStarts {
 public:
  explicit HeldOutOf(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  std::int64_t size() const override { return source_->size(); }
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }
  const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  std::int64_t num_classes() const override { return source_->num_classes(); }
  std::string name(std::int64_t index) const override { return source_->name(index); }
  std::string describe_contents() const override { return source_->describe_contents(); }

 protected:
  const Source& source() const { return *source_; }

 private:
  std::shared_ptr<const Source> source_;
};

class HeldOutPictures final : public HeldOutOf<PictureSource> {
 public:
  HeldOutPictures(PictureSourcePtr pictures, const EvaluationView& view)
      : HeldOutOf(std::move(pictures)), view_(view), normalizer_(view.normalize) {}

  void make(std::int64_t index, std::span<float> start) const override {
    std::vector<std::byte> bytes;
    source().load(index, bytes);
    const std::span<float> pixels = scratch(start.size());
    make_evaluation_picture(view_, normalizer_, source(), index, bytes, pixels);
    by_channel(pixels, start);
  }

 private:
  EvaluationView view_;
  ChannelNormalizer normalizer_;
};

class HeldOutLatents final : public HeldOutOf<LatentSource> {
 public:
  using HeldOutOf::HeldOutOf;

  void make(std::int64_t index, std::span<float> start) const override {
    draw(source(), index, LatentView::kPlain, latent_key(0, index), start);
  }
};

}  // namespace

std::unique_ptr<TrainingStarts> starts_of(TrainingPictures pictures) {
  return std::make_unique<PictureStarts>(std::move(pictures));
}

HeldOutStartsPtr held_out_starts(PictureSourcePtr pictures, const EvaluationView& view) {
  return std::make_shared<HeldOutPictures>(std::move(pictures), view);
}

std::unique_ptr<TrainingStarts> starts_of(LatentSourcePtr latents, const SampleOrder& order,
                                          const LatentSampling& sampling) {
  return std::make_unique<LatentStarts>(std::move(latents), order, sampling);
}

HeldOutStartsPtr held_out_starts(LatentSourcePtr latents) {
  return std::make_shared<HeldOutLatents>(std::move(latents));
}

}  // namespace moh
