#include "train/families/images/data/picture_batch.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "ops/loss/cross_entropy.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/pictures/golden.h"
#include "train/families/images/data/made_pictures.h"
#include "train/trainer/task/data/batch_workers.h"

using namespace moh;
using namespace moh::test;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}
bool same(const PictureBatch& a, const PictureBatch& b) {
  return same(a.pictures, b.pictures) && same(a.targets, b.targets) && same(a.labels, b.labels);
}

Augmentation small_augmentation() {
  Augmentation augmentation;
  augmentation.size = 24;
  augmentation.color_jitter = ColorJitter{0.4, 0.4, 0.4, 0.1};
  return augmentation;
}

constexpr std::int64_t kBatch = 8;

TrainingPictures pictures_of(PictureSourcePtr source, std::uint64_t seed = 1,
                             OnError on_error = OnError::kStop,
                             std::shared_ptr<BrokenPictures> broken = nullptr) {
  const SampleOrder order(source->size(), kBatch, seed);
  return {std::move(source), small_augmentation(), {}, order, seed, on_error, std::move(broken)};
}

/// Batches [first, first + count) made by this many threads.
std::vector<PictureBatch> batches_of(const TrainingPictures& data, std::int64_t first, int count,
                                     int threads) {
  BatchWorkers<PictureBatch> workers(
      {.begin = [&](std::int64_t) { return data.begin(kBatch); },
       .samples = kBatch,
       .make = [&](PictureBatch& batch, std::int64_t index,
                   std::int64_t row) { data.make(batch, index * kBatch, row); },
       .finish = [&](PictureBatch& batch, std::int64_t index) { data.finish(batch, index * kBatch); }},
      first, 2, threads);
  std::vector<PictureBatch> batches;
  for (int i = 0; i < count; ++i) batches.push_back(workers.next());
  CHECK(workers.position() == first + count);
  return batches;
}

/// A folder with pictures, some of them broken.
struct PartlyBroken {
  PartlyBroken() {
    for (int i = 0; i < 16; ++i) {
      const bool broken = i % 5 == 2;
      write_file(folder / ((i < 8 ? "a/" : "b/") + std::to_string(i + 10) + ".jpg"),
                 broken ? "broken" : read_file(pictures_folder() / "data/ycc420.jpg"));
    }
  }
  PictureSourcePtr open() const { return open_pictures({folder.path().string()}); }

  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("picture batches: equal for any number of threads, and after a resume") {
  const TrainingPictures data = pictures_of(shape_pictures(100, 40, 2));
  const auto expected = batches_of(data, 0, 15, 0);  // into the second epoch
  for (const int threads : {1, 4}) {
    const auto found = batches_of(data, 0, 15, threads);
    CHECK(std::ranges::equal(found, expected, [](const auto& a, const auto& b) { return same(a, b); }));
    const auto resumed = batches_of(data, 7, 8, threads);
    CHECK(std::equal(resumed.begin(), resumed.end(), expected.begin() + 7,
                     [](const auto& a, const auto& b) { return same(a, b); }));
  }
  CHECK_FALSE(same(expected[0], expected[12]));  // the same pictures, in another order and other views
  CHECK_FALSE(same(expected[0], batches_of(pictures_of(shape_pictures(100, 40, 2), 5), 0, 1, 0)[0]));
}

TEST_CASE("picture batches: targets of a picture sum to 1, and are smoothed and mixed") {
  const TrainingPictures data = pictures_of(shape_pictures(100, 40, 2));
  const PictureBatch batch = batches_of(data, 0, 1, 0)[0];
  CHECK(batch.pictures.shape() == Shape{kBatch, 24, 24, 3});
  CHECK(batch.targets.shape() == Shape{kBatch, 8});
  CHECK(batch.pictures.all_finite());
  for (std::int64_t row = 0; row < kBatch; ++row) {
    const Tensor targets = batch.targets.select(row);
    double sum = 0;
    for (const float value : targets.span<float>()) {
      sum += value;
      CHECK(value >= 0.0124F);  // 0.1 / 8
    }
    CHECK(sum == Approx(1).epsilon(1e-5));
  }
}

TEST_CASE("picture batches: a broken picture stops, or is skipped, counted and named") {
  const PartlyBroken files;
  const TrainingPictures stopping = pictures_of(files.open());
  const std::string message = message_of<DataError>([&] { batches_of(stopping, 0, 2, 0); });
  CHECK_THAT(message, Catch::Contains(".jpg: picture: expected a JPEG or PNG file"));
  // The first in the order of the samples, whatever the threads were doing.
  for (int i = 0; i < 5; ++i) CHECK(message_of<DataError>([&] { batches_of(stopping, 0, 2, 3); }) == message);

  const auto broken = std::make_shared<BrokenPictures>();
  const TrainingPictures skipping = pictures_of(files.open(), 1, OnError::kSkip, broken);
  const auto one = batches_of(skipping, 0, 2, 0), many = batches_of(skipping, 0, 2, 3);
  CHECK(same(one[0], many[0]));
  CHECK(same(one[1], many[1]));
  CHECK(broken->count() == 3);
  CHECK_THAT(broken->describe(), Catch::StartsWith("3 broken pictures: "));
  CHECK_THAT(broken->describe(), Catch::Contains("a/12.jpg: picture: expected a JPEG or PNG file, found"));
}

TEST_CASE("picture batches: a folder of broken pictures stops, skipping or not") {
  const TemporaryFolder folder;
  for (int i = 0; i < 9; ++i) write_file(folder / ("a/" + std::to_string(i) + ".jpg"), "broken");
  const auto broken = std::make_shared<BrokenPictures>();
  const TrainingPictures data =
      pictures_of(open_pictures({folder.path().string()}), 1, OnError::kSkip, broken);
  CHECK_THROWS_AS(batches_of(data, 0, 1, 2), DataError);
}

TEST_CASE("picture batches: an evaluation sees every picture once, and leaves broken ones out") {
  const PartlyBroken files;
  const auto broken = std::make_shared<BrokenPictures>();
  const EvaluationView view{.short_side = 32, .crop = 24};
  const EvaluationPictures data(files.open(), view, 6, OnError::kSkip, broken);
  CHECK(data.pictures().is_whole());
  const EvaluationPictures some(files.open(), view, 2, OnError::kSkip, broken, 3);
  CHECK(some.size() == 2);
  CHECK((some.rows(0) == 2 && some.rows(1) == 1));
  REQUIRE(data.size() == 3);
  std::int64_t sound = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    PictureBatch batch = data.begin(i);
    CHECK(batch.labels.dim(0) == (i == 2 ? 4 : 6));
    for (std::int64_t row = 0; row < data.rows(i); ++row) {
      data.make(batch, i, row);
      const std::int64_t label = batch.labels.data<std::int64_t>()[row], picture = i * 6 + row;
      CHECK(label == (picture % 5 == 2 ? kIgnoredTarget : picture / 8));
    }
    EvaluationPictures::finish(batch);
    sound += batch.num_pictures;
  }
  CHECK(sound == 13);
  CHECK(broken->count() == 3);
  // The pixels are those of the view.
  PictureBatch batch = data.begin(0);
  data.make(batch, 0, 0);
  std::vector<float> expected(24 * 24 * 3);
  make_evaluation_picture(view, ChannelNormalizer(view.normalize), sample_bytes("ycc420.jpg"), "a", expected);
  CHECK(std::ranges::equal(batch.pictures.select(0).span<float>(), expected));
}

TEST_CASE("picture batches: an evaluation may see a picture as it is, which has to be of the size") {
  const auto seen = [](const EvaluationView& view, const std::string& name) {
    std::vector<float> pixels(static_cast<std::size_t>(view.crop * view.crop * 3));
    make_evaluation_picture(view, ChannelNormalizer(view.normalize), sample_bytes(name), name, pixels);
    return pixels;
  };
  const PictureSize size = picture_size(sample_bytes("ycc420.jpg"), "a");
  const EvaluationView original{.crop = 24, .mode = EvaluationCrop::kOriginal};
  CHECK_THAT(message_of<DataError>([&] { seen(original, "ycc420.jpg"); }),
             Catch::Contains("ycc420.jpg: size: expected 24 x 24 for data.eval_crop: original, found " +
                             to_string(size)));
  const PictureSourcePtr drawn = shape_pictures(2, 24, 1);
  std::vector<float> as_it_is(24 * 24 * 3), pixels(24 * 24 * 3);
  make_evaluation_picture(original, ChannelNormalizer(original.normalize), *drawn, 0, {}, as_it_is);
  const auto all = [](PictureSize of) { return whole(of); };
  ChannelNormalizer(original.normalize)(drawn->decode(0, {}, all), pixels);
  CHECK(as_it_is == pixels);
}
