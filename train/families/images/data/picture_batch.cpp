#include "train/families/images/data/picture_batch.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/dry_run.h"
#include "core/error.h"
#include "ops/loss/cross_entropy.h"
#include "train/families/images/data/changed_data.h"

namespace moh {

namespace {

// Random streams apart from those of initialisation, training steps (Generator) and the order of samples.
constexpr std::uint64_t kAugmentStream = std::uint64_t{1} << 53;
constexpr std::uint64_t kMixStream = kAugmentStream | std::uint64_t{1} << 52;

Rgb fill_of(const ChannelStatistics& statistics) {
  Rgb fill{};
  for (std::size_t c = 0; c < fill.size(); ++c)
    fill[c] = static_cast<std::uint8_t>(std::clamp(std::nearbyint(255 * statistics.mean[c]), 0.0, 255.0));
  return fill;
}

std::span<float> row_of(const PictureBatch& batch, std::int64_t row) {
  const Tensor picture = batch.pictures.select(row);
  return picture.span<float>();
}

/// Bytes of a picture as they are read; one for each thread, so that its memory is reused.
std::vector<std::byte>& read_buffer() {
  thread_local std::vector<std::byte> buffer;
  return buffer;
}

/// The view of an evaluation on a picture of this size. Throws DataError for one that does not fit kOriginal.
PictureView view_of(const EvaluationView& view, PictureSize size, PictureName name) {
  if (view.mode == EvaluationCrop::kSquash)
    return squashed_view(size, view.short_side, view.crop, view.filter);
  if (view.mode == EvaluationCrop::kCenter) return center_view(size, view.short_side, view.crop, view.filter);
  const PictureSize square{view.crop, view.crop};
  if (size != square)
    throw DataError(error_message(name(), "size", to_string(square) + " for data.eval_crop: original",
                                  to_string(size), "data.eval_crop=center or squash resizes pictures"));
  return crop_view(whole(size), square, view.filter);
}

/// The pixels of an evaluation, of a picture that decode(region) makes.
template <class Decode>
Picture seen_pixels(const EvaluationView& view, PictureName name, Decode decode) {
  std::optional<PictureView> shown;
  const Picture pixels = decode([&](PictureSize size) {
    shown = view_of(view, size, name);
    return shown->source();
  });
  return (*shown)(pixels);
}

}  // namespace

TrainingPictures::TrainingPictures(PictureSourcePtr source, const Augmentation& augmentation,
                                   const TargetOptions& targets, const SampleOrder& order, std::uint64_t seed,
                                   OnError on_error, std::shared_ptr<BrokenPictures> broken)
    : source_(std::move(source)),
      augmentation_(augmentation),
      targets_(targets),
      order_(order),
      seed_(seed),
      on_error_(on_error),
      broken_(std::move(broken)),
      normalizer_(augmentation.normalize),
      fill_(fill_of(augmentation.normalize)) {
  MOH_CHECK(on_error == OnError::kStop || broken_ != nullptr,
            "TrainingPictures: skipped pictures are counted");
}

PictureBatch TrainingPictures::begin(std::int64_t count) const {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const std::int64_t size = augmentation_.size, classes = std::ssize(source_->class_names());
  return {.pictures = empty({count, size, size, Picture::kChannels}, DType::kFloat32),
          .targets = empty({count, classes}, DType::kFloat32),
          .labels = empty({count}, DType::kInt64),
          .num_pictures = count};
}

/// The picture's pixels before they become floats; what is drawn afterwards continues in `draws`.
Picture TrainingPictures::augmented(std::int64_t picture, std::int64_t sample) const {
  Draws draws({seed_, kAugmentStream | static_cast<std::uint64_t>(order_.epoch_of(sample))},
              static_cast<std::uint64_t>(order_.index_of(sample)) * Draws::kPerSample);
  std::vector<std::byte>& bytes = read_buffer();
  source_->load(picture, bytes);
  const PictureSize size{augmentation_.size, augmentation_.size};
  std::optional<PictureView> view;
  const Picture pixels = source_->decode(picture, bytes, [&](PictureSize found) {
    view = crop_view(draw_crop(augmentation_.crop, found, draws), size, augmentation_.filter);
    return view->source();
  });
  Picture result = (*view)(pixels);
  if (draws.chance(augmentation_.flip)) flip(result);
  std::vector<AugmentOp> ops;
  if (augmentation_.rand_augment) ops = draw_rand_augment(*augmentation_.rand_augment, draws);
  if (augmentation_.color_jitter) {
    const std::vector<AugmentOp> jitter = draw_color_jitter(*augmentation_.color_jitter, draws);
    ops.insert(ops.end(), jitter.begin(), jitter.end());
  }
  for (const AugmentOp& op : ops) result = apply(op, std::move(result), fill_);
  return result;
}

void TrainingPictures::make(PictureBatch& batch, std::int64_t first_sample, std::int64_t row) const {
  batch.labels.data<std::int64_t>()[row] = make_one(first_sample + row, row_of(batch, row));
}

std::int64_t TrainingPictures::make_one(std::int64_t sample, std::span<float> to) const {
  Picture pixels;
  const std::int64_t picture = first_sound(
      order_.picture_of(sample), source_->size(), on_error_, broken_.get(), [&](std::int64_t candidate) {
        with_memory([&] { return source_->name(candidate); }, [&] { pixels = augmented(candidate, sample); });
      });
  normalizer_(pixels, to);
  if (augmentation_.erasing) {
    const auto epoch = static_cast<std::uint64_t>(order_.epoch_of(sample));
    const std::uint64_t first = static_cast<std::uint64_t>(order_.index_of(sample)) * Draws::kPerSample;
    const std::uint64_t half =
        Draws::kPerSample / 2;  // far from what was drawn before, however much that was
    Draws draws({seed_, kAugmentStream | epoch}, first + half);
    const auto box = draw_erased_box(*augmentation_.erasing, pixels.size(), draws);
    if (box) erase(to, pixels.size(), *box, draws.key(), draws.next_index());
  }
  return source_->label(picture);
}

void TrainingPictures::finish(PictureBatch& batch, std::int64_t first_sample) const {
  const std::int64_t count = batch.labels.dim(0), group = std::min(order_.group_samples(), count);
  const PictureSize size{augmentation_.size, augmentation_.size};
  const std::span<const std::int64_t> labels = batch.labels.span<std::int64_t>();
  const std::int64_t classes = batch.targets.dim(1);
  for (std::int64_t begin = 0; begin < count; begin += group) {
    const std::int64_t rows = std::min(group, count - begin), sample = first_sample + begin;
    Mix mix;
    if (targets_.mixing) {
      Draws draws({seed_, kMixStream | static_cast<std::uint64_t>(order_.epoch_of(sample))},
                  static_cast<std::uint64_t>(order_.index_of(sample)) * Draws::kPerSample);
      mix = draw_mix(*targets_.mixing, size, draws);
      mix_pictures(batch.pictures.slice(begin, begin + rows).span<float>(), rows, size, mix);
    }
    soft_targets(labels.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)), classes,
                 targets_.label_smoothing, mix.lambda,
                 batch.targets.slice(begin, begin + rows).span<float>());
  }
}

EvaluationPictures::EvaluationPictures(PictureSourcePtr source, const EvaluationView& view,
                                       std::int64_t batch_size, OnError on_error,
                                       std::shared_ptr<BrokenPictures> broken, std::int64_t most)
    : source_(std::move(source)),
      pictures_(source_->size(), most),
      view_(view),
      batch_size_(batch_size),
      on_error_(on_error),
      broken_(std::move(broken)),
      normalizer_(view.normalize) {
  MOH_CHECK(batch_size >= 1, "EvaluationPictures: batches of at least 1");
  MOH_CHECK(on_error == OnError::kStop || broken_ != nullptr,
            "EvaluationPictures: skipped pictures are counted");
}

std::int64_t EvaluationPictures::size() const {
  return (pictures_.size() + batch_size_ - 1) / batch_size_;
}

std::int64_t EvaluationPictures::rows(std::int64_t batch) const {
  return std::min(batch_size_, pictures_.size() - batch * batch_size_);
}

PictureBatch EvaluationPictures::begin(std::int64_t batch) const {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const std::int64_t count = rows(batch);
  return {.pictures = empty({count, view_.crop, view_.crop, Picture::kChannels}, DType::kFloat32),
          .targets = {},
          .labels = empty({count}, DType::kInt64),
          .num_pictures = count};
}

void EvaluationPictures::make(PictureBatch& batch, std::int64_t index, std::int64_t row) const {
  const std::int64_t picture = pictures_.at(index * batch_size_ + row);
  std::int64_t& label = batch.labels.data<std::int64_t>()[row];
  const std::span<float> to = row_of(batch, row);
  label = source_->label(picture);
  try {
    std::vector<std::byte>& bytes = read_buffer();
    source_->load(picture, bytes);
    make_evaluation_picture(view_, normalizer_, *source_, picture, bytes, to);
  } catch (const ChangedDataError&) {
    throw;
  } catch (const DataError& error) {
    if (on_error_ == OnError::kStop) throw;
    broken_->add(picture, error.what());
    label = kIgnoredTarget;
    std::ranges::fill(to, 0.0F);
  }
}

void EvaluationPictures::finish(PictureBatch& batch) {
  batch.num_pictures = std::ranges::count_if(batch.labels.span<std::int64_t>(),
                                             [](std::int64_t label) { return label != kIgnoredTarget; });
}

void make_evaluation_picture(const EvaluationView& view, const ChannelNormalizer& normalizer,
                             const PictureSource& source, std::int64_t index,
                             const std::vector<std::byte>& bytes, std::span<float> to) {
  const auto decode = [&](ChooseRegion region) { return source.decode(index, bytes, region); };
  const auto name = [&] { return source.name(index); };
  with_memory(name, [&] { normalizer(seen_pixels(view, name, decode), to); });
}

void make_evaluation_picture(const EvaluationView& view, const ChannelNormalizer& normalizer,
                             std::span<const std::byte> file, std::string_view name, std::span<float> to) {
  const auto decode = [&](ChooseRegion region) { return decode_picture(file, name, region); };
  const auto named = [&] { return std::string(name); };
  with_memory(named, [&] { normalizer(seen_pixels(view, named, decode), to); });
}

}  // namespace moh
