#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "train/base/math/frechet_distance.h"

namespace moh {

/// Features of a set of pictures, or what was computed of them, as files have them; what is missing is
/// undefined. All float64 on the CPU.
struct PictureFeatures {
  std::string name;                                 ///< of the file, for messages
  Tensor features;                                  ///< [N, D], of the whole picture: Inception's pool_3
  Tensor spatial_features;                          ///< [N, S], of where things are: Inception's mixed_6/conv
  Tensor probabilities;                             ///< [N, classes]
  std::optional<Moments> moments, spatial_moments;  ///< where the file has them: they count, not the features
};

/// Reads a .npy file of features [N, D], or an .npz file with any of the arrays `activations`,
/// `activations_s`, `probabilities`, and those of guided-diffusion's reference batches: `mu`, `sigma`,
/// `mu_s`, `sigma_s`. Any floating or integer type, in rows. Throws DataError naming file and array for
/// others, for numbers that are not finite, probabilities that are none, a mean without its covariance or of
/// another width, and a file with none of them.
PictureFeatures read_picture_features(const std::filesystem::path& path);

/// Writes an .npz file of which read_picture_features() gives back the same, but for the name: features in
/// float32, which those of a network in float32 or less fit, all else in float64. Throws StorageError.
void write_picture_features(const std::filesystem::path& path, const PictureFeatures& features);

/// The scores of samples against a reference, as the evaluator of guided-diffusion defines them (Dhariwal &
/// Nichol 2021, arXiv 2105.05233); those that the files have no numbers for are missing.
struct PictureScores {
  std::optional<double> fid;   ///< frechet_distance of the features
  std::optional<double> sfid;  ///< of the spatial features
  /// exp of the mean of KL(p(class | picture) || p(class)) over blocks of 5000 samples in the file's order,
  /// averaged over the blocks (Salimans et al. 2016, arXiv 1606.03498).
  std::optional<double> inception_score;
  std::optional<double> precision, recall;  ///< by balls to the third neighbour (neighbour_coverage)
};

/// `progress` gets the share of the work of precision and recall, which is nearly all. Throws DataError for
/// features of two widths and too few of them, naming both files.
PictureScores score_pictures(const PictureFeatures& reference, const PictureFeatures& samples,
                             const std::function<void(double)>& progress);

/// Remarks on scores of few pictures, a sentence each: that FID has a bias, larger than differences between
/// models, below 10,000 pictures, and that pictures which are not more than features have a covariance
/// without full rank. Empty where there are more, and where files have moments alone.
std::vector<std::string> remarks_on_counts(const PictureFeatures& reference, const PictureFeatures& samples);

void write_table(std::ostream& out, const PictureFeatures& reference, const PictureFeatures& samples,
                 const PictureScores& scores);
/// One JSON object: reference, samples (names), fid, sfid, inception_score, precision, recall (those there
/// are).
void write_json_line(std::ostream& out, const PictureFeatures& reference, const PictureFeatures& samples,
                     const PictureScores& scores);

}  // namespace moh
