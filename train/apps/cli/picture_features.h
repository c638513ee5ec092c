#pragma once

#include <memory>
#include <string>

#include "core/function_ref.h"
#include "train/apps/eval/picture_scores.h"
#include "train/base/log/console.h"
#include "train/families/images/data/picture_source.h"
#include "train/trainer/task/family.h"

namespace moh::cli {

/// Whose features of pictures are computed; the classifier and the weights of Inception are not both given.
struct FeatureOptions {
  std::string classifier;        ///< a checkpoint
  std::string inception;         ///< a published weight file (load_inception)
  std::string resize = "adm";    ///< for Inception: or "pytorch-fid"
  std::string device = "cpu";    ///< of Inception
  std::int64_t batch_size = 16;  ///< pictures of a forward pass of Inception
};

/// Makes features of pictures.
class FeatureMaker {
 public:
  explicit FeatureMaker(Console& console) : console_(console) {}
  virtual ~FeatureMaker() = default;
  FeatureMaker(const FeatureMaker&) = delete;
  FeatureMaker& operator=(const FeatureMaker&) = delete;

  /// The features of a file or folder of pictures; those of a file that has features or statistics in place
  /// of pictures (read_picture_features), and the statistics beside pictures. Shows its progress. Throws
  /// DataError, NumericError.
  PictureFeatures of(const std::string& path);
  /// Whose they are, for the table.
  virtual std::string describe() const = 0;

 private:
  /// Sets the features of pictures; `done` gets the number of those that are done.
  virtual void make(PictureFeatures& features, const PictureSourcePtr& pictures,
                    FunctionRef<void(std::int64_t)> done) = 0;

  Console& console_;
};

/// Null where neither a classifier nor Inception is given. Throws CheckpointError for what is none, and
/// ConfigError for a model of another task. Options and console must outlive the result.
std::unique_ptr<FeatureMaker> feature_maker(const FeatureOptions& options, const Families& families,
                                            Console& console);

}  // namespace moh::cli
