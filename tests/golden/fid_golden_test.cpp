#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "train/apps/eval/picture_scores.h"
#include "train/base/formats/numpy_file.h"
#include "train/base/math/neighbour_coverage.h"

using namespace moh;

namespace {

namespace fs = std::filesystem;

fs::path golden(const char* name) {
  return fs::path(MOH_SOURCE_DIR) / "tests/golden/fid" / name;
}

PictureScores scores_of(const char* reference, const char* samples) {
  return score_pictures(read_picture_features(golden(reference)), read_picture_features(golden(samples)),
                        [](double) {});
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

/// An .npy file of float32 in rows.
std::string npy(const std::vector<float>& values, const std::string& shape, const std::string& descr = "<f4",
                const std::string& fortran = "False") {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
  std::string text = "\x93NUMPY";
  text += {'\1', '\0', static_cast<char>(header.size()), '\0'};
  text += header;
  text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return text;
}

std::string refusal(const fs::path& path) {
  return message_of<DataError>([&] { read_picture_features(path); });
}

Tensor normal(const Shape& shape, std::uint64_t seed) {
  Tensor x = empty(shape, DType::kFloat64);
  fill_normal(x, {seed, 1}, 0.0, 1.0);
  return x;
}

}  // namespace

TEST_CASE("fid: features and statistics come back from the file that they are written to") {
  const TemporaryFolder folder;
  for (const char* name : {"reference.npz", "statistics.npz"}) {
    const PictureFeatures written = read_picture_features(golden(name));
    write_picture_features(folder.path() / name, written);
    const PictureFeatures found = read_picture_features(folder.path() / name);
    const auto same = [](const Tensor& a, const Tensor& b) {
      return a.defined() == b.defined() &&
             (!a.defined() ||
              (a.shape() == b.shape() && std::ranges::equal(a.span<double>(), b.span<double>())));
    };
    CHECK(same(found.features, written.features));
    CHECK(same(found.spatial_features, written.spatial_features));
    CHECK(same(found.probabilities, written.probabilities));
    for (const auto moments : {&PictureFeatures::moments, &PictureFeatures::spatial_moments}) {
      REQUIRE((found.*moments).has_value() == (written.*moments).has_value());
      if (!(found.*moments)) continue;
      CHECK(same((found.*moments)->mean, (written.*moments)->mean));
      CHECK(same((found.*moments)->covariance, (written.*moments)->covariance));
    }
  }
}

TEST_CASE("fid: scores of features and of statistics are those of NumPy and SciPy") {
  const auto expected = nlohmann::json::parse(bytes_of(golden("scores.json")));
  const auto close = [&](const std::optional<double>& found, const char* name) {
    INFO(name);
    REQUIRE(found);
    const double value = expected.at(name);
    CHECK(std::abs(*found - value) <= 1e-10 * std::abs(value));
  };
  for (const char* reference : {"reference.npz", "statistics.npz"}) {
    const PictureScores scores = scores_of(reference, "samples.npz");
    close(scores.fid, "fid");
    close(scores.sfid, "sfid");
    close(scores.inception_score, "inception_score");
    CHECK(scores.precision.has_value() == (std::string(reference) == "reference.npz"));
  }
  const PictureScores both = scores_of("reference.npz", "samples.npz");
  CHECK(*both.precision == expected.at("precision").get<double>());
  CHECK(*both.recall == expected.at("recall").get<double>());
  // The root of a singular matrix is not as exact in SciPy.
  CHECK(*scores_of("statistics.npz", "few.npy").fid ==
        Approx(expected.at("fid_of_few").get<double>()).epsilon(1e-6));
  CHECK(std::abs(*scores_of("statistics.npz", "reference.npz").fid) < 1e-10);
}

TEST_CASE("fid: what two spectra on common axes have between them, of whatever rank") {
  // sum (sqrt a - sqrt b)^2 where both matrices are diagonal in one basis.
  const std::int64_t n = 12;
  Moments a{zeros({n}, DType::kFloat64), zeros({n, n}, DType::kFloat64)};
  Moments b{zeros({n}, DType::kFloat64), zeros({n, n}, DType::kFloat64)};
  double expected = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = i < 5 ? std::pow(10.0, -static_cast<double>(i)) : 0, y = i % 3 == 0 ? 2.5 : 0;
    a.covariance.data<double>()[i * n + i] = x;
    b.covariance.data<double>()[i * n + i] = y;
    expected += std::pow(std::sqrt(x) - std::sqrt(y), 2);
  }
  CHECK(frechet_distance(a, b) == Approx(expected).epsilon(1e-13));
  CHECK(std::abs(frechet_distance(a, a)) < 1e-14);
  a.mean.data<double>()[3] = 2;
  CHECK(frechet_distance(a, b) == Approx(expected + 4).epsilon(1e-13));
  b.covariance.data<double>()[1] = 0.5;
  CHECK(message_of<NumericError>([&] { frechet_distance(a, b); }).find("symmetric") != std::string::npos);
  b.covariance.data<double>()[n] = 0.5;
  b.covariance.data<double>()[0] = -1;
  CHECK(message_of<NumericError>([&] { frechet_distance(a, b); }).find("negative") != std::string::npos);
}

TEST_CASE("fid: scores do not depend on the number of threads") {
  const Tensor x = normal({700, 9}, 1), y = normal({300, 9}, 2);
  const int before = num_threads();
  const auto all = [&](int threads) {
    set_num_threads(threads);
    const Coverage coverage = neighbour_coverage(x, y, 3, [](double) {});
    return std::array<double, 3>{frechet_distance(moments_of(x), moments_of(y)), coverage.precision,
                                 coverage.recall};
  };
  CHECK(all(1) == all(3));
  set_num_threads(before);
  CHECK(neighbour_coverage(x, x, 3, [](double) {}).precision == 1);
}

TEST_CASE("fid: bad files are named") {
  const TemporaryFolder folder;
  const fs::path path = folder / "x.npy";
  const std::vector<float> six = {1, 2, 3, 4, 5, 6};
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    INFO(why);
    const std::string message = refusal(write(path, bytes));
    INFO(message);
    CHECK(message.find(path.string()) == 0);
    CHECK(message.find(why) != std::string::npos);
  };
  std::vector<float> hole = six;
  hole[4] = NAN;
  refused(npy(hole, "(3, 2)"), "found nan in row 2, column 0");
  refused(npy(six, "(6,)"), "expected rows: [pictures, features], found 1 axes");
  refused(npy(six, "(3, 2)", "<f4", "True"), "Fortran");
  refused(npy(six, "(3, 2)", ">f4"), "found >f4");
  refused(npy(six, "(3, 2)", "|O"), "found |O");
  refused(npy(six, "(3, 3)"), "24 bytes of elements; the file is cut or damaged");
  refused(npy(six, "(3, 2)").substr(0, npy(six, "(3, 2)").size() - 3), "cut or damaged");
  refused("PK\3\4", "zip archive");
  refused("text", "expected a file of NumPy");
  refused("", "expected a file of NumPy");

  std::string damaged = bytes_of(golden("samples.npz"));
  damaged[3000] = static_cast<char>(damaged[3000] ^ 1);
  refused(damaged, "CRC-32");
  refused(damaged.substr(0, damaged.size() - 9), "zip archive");
}

TEST_CASE("fid: files that do not fit one another, or are too short, are refused") {
  const TemporaryFolder folder;
  const PictureFeatures reference = read_picture_features(golden("reference.npz"));
  const auto refused = [&](const PictureFeatures& samples, const std::string& why) {
    INFO(why);
    const std::string message =
        message_of<DataError>([&] { score_pictures(reference, samples, [](double) {}); });
    INFO(message);
    CHECK(message.find("reference.npz") != std::string::npos);
    CHECK(message.find(why) != std::string::npos);
  };
  refused({.name = "s", .features = normal({9, 5}, 1)}, "expected one width, found 16 and 5");
  refused({.name = "s", .features = normal({1, 16}, 1)}, "2 pictures or more");
  refused({.name = "s", .features = normal({3, 16}, 1)}, "4 pictures or more in each, found 60 and 3");
  refused({.name = "s"}, "found none that both have");
}
