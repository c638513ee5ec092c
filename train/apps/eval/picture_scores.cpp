#include "train/apps/eval/picture_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/base/formats/npz_writer.h"
#include "train/base/formats/numpy_file.h"
#include "train/base/io/printable.h"
#include "train/base/math/neighbour_coverage.h"

namespace moh {

namespace {

constexpr std::int64_t kNeighbours = 3, kScoreBlock = 5000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 34;  // 128 GiB

/// Reads arrays of one file, and names them in messages.
class FeatureReader {
 public:
  explicit FeatureReader(const std::filesystem::path& path) : file_(path) {}

  const NumpyFile& file() const { return file_; }

  /// The array of that name, undefined if there is none; of `rank` axes.
  Tensor read(std::string_view name, std::size_t rank) const {
    const NumpyArray* array = file_.find(name);
    if (array == nullptr) return {};
    if (array->shape.size() != rank || array->fortran_order)
      fail(
          name, rank == 1 ? "one axis" : "rows: [pictures, features]",
          array->fortran_order ? "columns (Fortran's order)" : std::to_string(array->shape.size()) + " axes");
    const auto count = static_cast<std::int64_t>(array->elements());
    if (count == 0 || count > kMostElements) fail(name, "1 to 2^34 numbers", std::to_string(count));
    file_.verify(name);
    Tensor values = rank == 1 ? empty({count}, DType::kFloat64)
                              : empty({array->shape[0], array->shape[1]}, DType::kFloat64);
    constexpr std::int64_t kPart = 1 << 20;
    for (std::int64_t at = 0; at < count; at += kPart)
      file_.read(*array, static_cast<std::uint64_t>(at),
                 values.span<double>().subspan(static_cast<std::size_t>(at),
                                               static_cast<std::size_t>(std::min(kPart, count - at))));
    require_finite(name, values);
    return values;
  }

  std::optional<Moments> read_moments(std::string_view mean, std::string_view covariance) const {
    if ((file_.find(mean) == nullptr) != (file_.find(covariance) == nullptr))
      fail(mean, "it together with " + std::string(covariance), "one of them");
    Moments moments{read(mean, 1), read(covariance, 2)};
    if (!moments.mean.defined()) return std::nullopt;
    const std::int64_t width = moments.mean.numel();
    if (moments.covariance.shape() != Shape{width, width})
      fail(covariance,
           to_string(Shape{width, width}) + ", as " + std::string(mean) + " has " + std::to_string(width) +
               " numbers",
           to_string(moments.covariance.shape()));
    return moments;
  }

  void check_probabilities(const Tensor& values) const {
    constexpr double kRounding = 1e-2;  // of float16
    for (std::int64_t i = 0; i < values.dim(0); ++i) {
      double sum = 0, least = 0;
      const Tensor row = values.select(i);
      for (const double p : row.span<double>()) {
        sum += p;
        least = std::min(least, p);
      }
      if (least < 0 || std::abs(sum - 1) > kRounding)
        fail("probabilities", "rows of a sum of 1 without negative numbers",
             "row " + std::to_string(i) + " with the sum " + std::to_string(sum));
    }
  }

  [[noreturn]] void fail(std::string_view name, std::string_view expected, std::string_view found,
                         std::string_view fix = "") const {
    file_.file().fail(name.empty() ? "array" : "array " + std::string(name), expected, found, fix);
  }

 private:
  void require_finite(std::string_view name, const Tensor& values) const {
    const std::span<const double> all = values.span<double>();
    const auto bad = std::ranges::find_if(all, [](double x) { return !std::isfinite(x); });
    if (bad == all.end()) return;
    const std::int64_t at = bad - all.begin(), width = values.dim(-1);
    fail(name, "finite numbers",
         std::to_string(*bad) + " in row " + std::to_string(at / width) + ", column " +
             std::to_string(at % width));
  }

  NumpyFile file_;
};

/// The mean over blocks of exp(mean KL(p || mean p)); p log p is 0 for p = 0.
double inception_score(const Tensor& probabilities) {
  const std::int64_t count = probabilities.dim(0), classes = probabilities.dim(1);
  const double* p = probabilities.data<double>();
  double scores = 0;
  std::int64_t blocks = 0;
  for (std::int64_t first = 0; first < count; first += kScoreBlock, ++blocks) {
    const std::int64_t last = std::min(first + kScoreBlock, count);
    std::vector<double> mean(static_cast<std::size_t>(classes));
    for (std::int64_t i = first * classes; i < last * classes; ++i)
      mean[static_cast<std::size_t>(i % classes)] += p[i] / static_cast<double>(last - first);
    double divergence = 0;
    for (std::int64_t i = first * classes; i < last * classes; ++i) {
      if (p[i] > 0)
        divergence += p[i] * (std::log(p[i]) - std::log(mean[static_cast<std::size_t>(i % classes)]));
    }
    scores += std::exp(divergence / static_cast<double>(last - first));
  }
  return scores / static_cast<double>(blocks);
}

[[noreturn]] void refuse(const PictureFeatures& a, const PictureFeatures& b, std::string_view what,
                         const std::string& expected, const std::string& found, std::string_view fix) {
  throw DataError(
      error_message(printable_path(a.name) + " and " + printable_path(b.name), what, expected, found, fix));
}

std::optional<Moments> moments_for(const PictureFeatures& of, const PictureFeatures& other,
                                   const std::optional<Moments>& given, const Tensor& rows) {
  if (given) return given;
  if (!rows.defined()) return std::nullopt;
  if (rows.dim(0) < 2)
    refuse(of, other, "features", "2 pictures or more in each", std::to_string(rows.dim(0)), "");
  return moments_of(rows);
}

std::optional<double> distance(const PictureFeatures& a, const PictureFeatures& b, std::string_view what,
                               const std::optional<Moments>& of_a, const std::optional<Moments>& of_b) {
  if (!of_a || !of_b) return std::nullopt;
  if (of_a->mean.numel() != of_b->mean.numel())
    refuse(a, b, what, "one width",
           std::to_string(of_a->mean.numel()) + " and " + std::to_string(of_b->mean.numel()),
           "features of one network are compared");
  return frechet_distance(*of_a, *of_b);
}

/// Rows of the features that the scores are of; nothing where a file has moments alone.
std::optional<std::int64_t> number_of_pictures(const PictureFeatures& of) {
  for (const Tensor* rows : {&of.features, &of.spatial_features, &of.probabilities}) {
    if (rows->defined()) return rows->dim(0);
  }
  return std::nullopt;
}

/// The scores that there are, in the order of the table.
std::vector<std::pair<const char*, double>> rows_of(const PictureScores& s) {
  std::vector<std::pair<const char*, double>> rows;
  const std::pair<const char*, const std::optional<double>&> all[] = {{"fid", s.fid},
                                                                      {"sfid", s.sfid},
                                                                      {"inception_score", s.inception_score},
                                                                      {"precision", s.precision},
                                                                      {"recall", s.recall}};
  for (const auto& [name, value] : all) {
    if (value) rows.emplace_back(name, *value);
  }
  return rows;
}

}  // namespace

PictureFeatures read_picture_features(const std::filesystem::path& path) {
  const FeatureReader reader(path);
  PictureFeatures features{.name = path.string()};
  if (!reader.file().is_archive()) {
    features.features = reader.read("", 2);
    return features;
  }
  features.features = reader.read("activations", 2);
  features.spatial_features = reader.read("activations_s", 2);
  features.probabilities = reader.read("probabilities", 2);
  features.moments = reader.read_moments("mu", "sigma");
  features.spatial_moments = reader.read_moments("mu_s", "sigma_s");
  const bool none = !features.features.defined() && !features.spatial_features.defined() &&
                    !features.probabilities.defined() && !features.moments && !features.spatial_moments;
  if (none)
    reader.file().file().fail(
        "arrays", "one of activations, activations_s, probabilities, mu and sigma, mu_s and sigma_s",
        reader.file().names(),
        reader.file().find("arr_0") == nullptr
            ? ""
            : "these are pictures: --features WEIGHTS or --features-from CHECKPOINT makes features of them");
  if (features.probabilities.defined()) reader.check_probabilities(features.probabilities);
  return features;
}

void write_picture_features(const std::filesystem::path& path, const PictureFeatures& features) {
  std::vector<NpzArray> arrays;
  std::vector<Tensor> values;
  const auto add = [&](const char* name, const Tensor& array, NpzArray::Type type) {
    if (!array.defined()) return;
    const std::span<const std::int64_t> extents = array.shape().extents();
    arrays.push_back({.name = name, .shape = {extents.begin(), extents.end()}, .type = type});
    values.push_back(array);
  };
  const auto add_moments = [&](const char* mean, const char* covariance, const Moments& moments) {
    add(mean, moments.mean, NpzArray::Type::kFloat64);
    add(covariance, moments.covariance, NpzArray::Type::kFloat64);
  };
  add("activations", features.features, NpzArray::Type::kFloat32);
  add("activations_s", features.spatial_features, NpzArray::Type::kFloat32);
  add("probabilities", features.probabilities, NpzArray::Type::kFloat64);
  add_moments("mu", "sigma", features.moments.value_or(Moments{}));
  add_moments("mu_s", "sigma_s", features.spatial_moments.value_or(Moments{}));
  NpzWriter file(path, arrays);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::int64_t row = 0; row < values[i].dim(0); ++row) {
      const Tensor part = values[i].slice(row, row + 1);
      if (arrays[i].type == NpzArray::Type::kFloat32)
        file.write(i, part.to(DType::kFloat32).span<float>());
      else
        file.write(i, part.span<double>());
    }
  }
  file.commit();
}

PictureScores score_pictures(const PictureFeatures& reference, const PictureFeatures& samples,
                             const std::function<void(double)>& progress) {
  PictureScores scores;
  const auto moments = [&](const PictureFeatures& of, const PictureFeatures& other) {
    return std::pair(moments_for(of, other, of.moments, of.features),
                     moments_for(of, other, of.spatial_moments, of.spatial_features));
  };
  const auto a = moments(reference, samples), b = moments(samples, reference);
  scores.fid = distance(reference, samples, "features", a.first, b.first);
  scores.sfid = distance(reference, samples, "spatial features", a.second, b.second);
  if (samples.probabilities.defined()) scores.inception_score = inception_score(samples.probabilities);
  const Tensor &x = reference.features, &y = samples.features;
  if (x.defined() && y.defined()) {
    if (x.dim(1) != y.dim(1))
      refuse(reference, samples, "features", "one width",
             std::to_string(x.dim(1)) + " and " + std::to_string(y.dim(1)),
             "features of one network are compared");
    if (std::min(x.dim(0), y.dim(0)) <= kNeighbours)
      refuse(reference, samples, "features", "4 pictures or more in each",
             std::to_string(x.dim(0)) + " and " + std::to_string(y.dim(0)), "");
    const Coverage coverage = neighbour_coverage(x, y, kNeighbours, progress);
    scores.precision = coverage.precision;
    scores.recall = coverage.recall;
  }
  if (rows_of(scores).empty())
    refuse(reference, samples, "arrays", "features or statistics in both", "none that both have", "");
  return scores;
}

std::vector<std::string> remarks_on_counts(const PictureFeatures& reference, const PictureFeatures& samples) {
  constexpr std::int64_t kEnough = 10'000;
  std::vector<std::string> remarks;
  for (const auto& [what, set] : {std::pair("reference", &reference), std::pair("samples", &samples)}) {
    const std::optional<std::int64_t> count = number_of_pictures(*set);
    if (!count || *count >= kEnough) continue;
    std::string remark =
        std::string(what) + ": " + std::to_string(*count) +
        " pictures are few: FID and sFID come out too large, by a bias that falls as one over "
        "their number, and the other scores depend on it, too. Compare only scores of equally "
        "many pictures; published ones are of 50000";
    if (set->features.defined() && !set->moments && *count <= set->features.dim(1))
      remark += ". There are not more pictures than the " + std::to_string(set->features.dim(1)) +
                " features, whose covariance has no full rank";
    remarks.push_back(std::move(remark));
  }
  return remarks;
}

void write_table(std::ostream& out, const PictureFeatures& reference, const PictureFeatures& samples,
                 const PictureScores& scores) {
  out << "reference        " << printable_path(reference.name) << "\nsamples          "
      << printable_path(samples.name) << '\n';
  const std::optional<std::int64_t> of_reference = number_of_pictures(reference),
                                    of_samples = number_of_pictures(samples);
  if (of_reference || of_samples)
    out << "pictures         " << (of_reference ? std::to_string(*of_reference) : "not known") << " and "
        << (of_samples ? std::to_string(*of_samples) : "not known") << '\n';
  for (const auto& [name, value] : rows_of(scores)) {
    std::array<char, 80> text{};
    std::snprintf(text.data(), text.size(), "%-16s %.6f\n", name, value);
    out << text.data();
  }
}

void write_json_line(std::ostream& out, const PictureFeatures& reference, const PictureFeatures& samples,
                     const PictureScores& scores) {
  nlohmann::ordered_json object = {{"reference", reference.name}, {"samples", samples.name}};
  for (const auto& [name, value] : rows_of(scores)) object[name] = value;
  out << object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace moh
