#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "train/augment/crop.h"
#include "train/augment/mixing.h"
#include "train/augment/normalize.h"
#include "train/augment/rand_augment.h"
#include "train/families/images/data/broken_pictures.h"
#include "train/families/images/data/picture_source.h"
#include "train/families/images/data/sample_order.h"
#include "train/trainer/task/data/spread_subset.h"

namespace moh {

/// How a training picture is made, in this order; what is not set is left out.
struct Augmentation {
  int size = 224;  ///< of the result, in pixels a side
  Filter filter = Filter::kBicubic;
  RandomCrop crop;
  double flip = 0.5;  ///< probability
  std::optional<RandAugment> rand_augment = RandAugment{};
  std::optional<ColorJitter> color_jitter;
  ChannelStatistics normalize;
  std::optional<RandomErasing> erasing = RandomErasing{};
};

/// How labels become targets, and pictures are mixed.
struct TargetOptions {
  std::optional<Mixing> mixing = Mixing{};
  double label_smoothing = 0.1;
};

/// The sides that an evaluation resizes before it takes the middle.
enum class EvaluationCrop {
  kCenter,    ///< the shorter side, and the other one with it
  kSquash,    ///< both sides, each by its own factor
  kOriginal,  ///< nothing, and takes all of a picture, which has to be of the size
};

/// How a picture is seen in an evaluation.
struct EvaluationView {
  int short_side = 256;  ///< but for kOriginal
  int crop = 224;        ///< side of the result
  Filter filter = Filter::kBicubic;
  EvaluationCrop mode = EvaluationCrop::kCenter;
  ChannelStatistics normalize;
};

/// B pictures and what they show. In a dry run, memory alone.
struct PictureBatch {
  Tensor pictures;                ///< [B, size, size, 3] float32, normalised
  Tensor targets;                 ///< [B, classes] float32, for training
  Tensor labels;                  ///< [B] int64; kIgnoredTarget for a broken picture in an evaluation
  std::int64_t num_pictures = 0;  ///< those that are not ignored
};

/// The batches of a training run, with random access: sample g is a function of (seed, epoch, index).
class TrainingPictures {
 public:
  /// `broken` may be null with OnError::kStop. Throws as SampleOrder does.
  TrainingPictures(PictureSourcePtr source, const Augmentation& augmentation, const TargetOptions& targets,
                   const SampleOrder& order, std::uint64_t seed, OnError on_error,
                   std::shared_ptr<BrokenPictures> broken);

  const SampleOrder& order() const { return order_; }
  const PictureSource& source() const { return *source_; }

  /// Memory for a batch of this many samples.
  PictureBatch begin(std::int64_t count) const;
  /// Makes sample `row` of a batch that begins with sample `first_sample` of the run. Thread-safe for
  /// different rows. Throws DataError for a broken picture with kStop, and where sound ones are rare.
  void make(PictureBatch& batch, std::int64_t first_sample, std::int64_t row) const;
  /// Makes a sample by itself: fills `to`, [size, size, 3], and returns the label.
  std::int64_t make_one(std::int64_t sample, std::span<float> to) const;
  /// Mixes groups and makes targets. The batch is a whole number of groups, or part of one.
  void finish(PictureBatch& batch, std::int64_t first_sample) const;

 private:
  Picture augmented(std::int64_t picture, std::int64_t sample) const;

  PictureSourcePtr source_;
  Augmentation augmentation_;
  TargetOptions targets_;
  SampleOrder order_;
  std::uint64_t seed_;
  OnError on_error_;
  std::shared_ptr<BrokenPictures> broken_;
  ChannelNormalizer normalizer_;
  Rgb fill_;
};

/// One pass over held-out pictures, in order: all of them, or a subset. The last batch may have fewer.
class EvaluationPictures {
 public:
  using Batch = PictureBatch;

  /// Evaluates `most` pictures, if there are more (SpreadSubset); 0: all.
  EvaluationPictures(PictureSourcePtr source, const EvaluationView& view, std::int64_t batch_size,
                     OnError on_error, std::shared_ptr<BrokenPictures> broken, std::int64_t most = 0);

  const PictureSource& source() const { return *source_; }
  /// The pictures of the source that are evaluated.
  const SpreadSubset& pictures() const { return pictures_; }
  const PictureSourcePtr& source_pointer() const { return source_; }
  /// Number of batches.
  std::int64_t size() const;
  std::int64_t rows(std::int64_t batch) const;

  PictureBatch begin(std::int64_t batch) const;
  void make(PictureBatch& batch, std::int64_t index, std::int64_t row) const;
  /// Counts the pictures that are not ignored.
  static void finish(PictureBatch& batch);

 private:
  PictureSourcePtr source_;
  SpreadSubset pictures_;
  EvaluationView view_;
  std::int64_t batch_size_;
  OnError on_error_;
  std::shared_ptr<BrokenPictures> broken_;
  ChannelNormalizer normalizer_;
};

/// A picture as a model sees it in an evaluation: [crop, crop, 3]. Throws DataError.
/// Picture `index` of a source, of which load() has read `bytes`.
void make_evaluation_picture(const EvaluationView& view, const ChannelNormalizer& normalizer,
                             const PictureSource& source, std::int64_t index,
                             const std::vector<std::byte>& bytes, std::span<float> to);
/// A JPEG or PNG file in memory.
void make_evaluation_picture(const EvaluationView& view, const ChannelNormalizer& normalizer,
                             std::span<const std::byte> file, std::string_view name, std::span<float> to);

}  // namespace moh
