#include "train/families/images/image_data_config.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/pictures/golden.h"

using namespace moh;
using namespace moh::test;

namespace {

/// The problems that the rules find in a configuration.
std::string problems_of(const ImageDataConfig& data, const AugmentConfig& augment,
                        std::int64_t step_samples) {
  const config::Source source{.name = "test.yaml", .text = ""};
  config::Problems problems;
  const config::GivenKeys given;
  config::Rules rules(given, {&source}, "", problems);
  check(data, augment, step_samples, rules);
  try {
    problems.throw_if_any();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("image data: the defaults are the paper's recipe") {
  const ImageDataConfig data = settled({}, 224);
  const Augmentation a = augmentation_of(data, {});
  CHECK(a.size == 224);
  CHECK(a.filter == Filter::kBicubic);
  REQUIRE(a.rand_augment);
  CHECK(a.rand_augment->magnitude == 9);
  CHECK_FALSE(a.color_jitter);
  REQUIRE(a.erasing);
  CHECK(a.erasing->probability == 0.25);
  const TargetOptions targets = target_options_of({});
  CHECK(targets.mixing->mixup_alpha == 0.8);
  CHECK(targets.mixing->cutmix_alpha == 1);
  CHECK(targets.label_smoothing == 0.1);
  CHECK(evaluation_view_of(data).short_side == 256);
  CHECK(evaluation_view_of(settled({.image_size = 384}, 224)).short_side == 438);
  CHECK(evaluation_view_of(settled({.image_size = 32}, 224)).short_side == 36);
  CHECK(evaluation_view_of(settled({.eval_share = 0.9}, 224)).short_side == 248);
  CHECK(evaluation_view_of(settled({}, 256)).short_side == 292);
  CHECK(settled({}, 32).drawn_side == 37);
  CHECK(problems_of(data, {}, 1024).empty());
}

TEST_CASE("image data: what is switched off is left out") {
  AugmentConfig augment;
  augment.rand_augment = "none";
  augment.erasing.probability = 0;
  augment.color_jitter.contrast = 0.4;
  const Augmentation a = augmentation_of({}, augment);
  CHECK_FALSE(a.rand_augment);
  CHECK_FALSE(a.erasing);
  REQUIRE(a.color_jitter);
  CHECK(a.color_jitter->contrast == 0.4);
}

TEST_CASE("image data: contradictions are refused at their keys") {
  ImageDataConfig data;
  data.order.groups = 8;
  CHECK_THAT(problems_of(data, {}, 100), Catch::Contains("data.groups: expected a divisor of"));
  AugmentConfig augment;
  augment.rand_augment = "rand-m9";
  augment.crop.scale = {0.5, 0.1};
  CHECK_THAT(problems_of({}, augment, 8), Catch::Contains("augment.rand_augment"));
  for (const char* text : {"m9", "trivial"}) {
    augment.rand_augment = text;
    CHECK_THAT(problems_of({}, augment, 8),
               Catch::Contains("rand-mM-nN-mstdS-pP-inc1, such as rand-m9-mstd0.5-inc1"));
    CHECK_THAT(problems_of({}, augment, 8), Catch::Contains("found " + std::string(text)));
  }
  CHECK_THAT(problems_of({}, augment, 8),
             Catch::Contains("augment.crop_scale: expected the smaller number first"));
}

TEST_CASE("image data: held-out pictures have the labels of the training pictures") {
  const TemporaryFolder folder;
  const std::string jpeg = read_file(pictures_folder() / "data/gray.jpg");
  for (const char* name : {"train/ant/1.jpg", "train/bee/1.jpg", "validation/bee/2.jpg"})
    write_file(folder / name, jpeg);
  ImageDataConfig data;
  data.train = {folder / "train"};
  data.validation = {folder / "validation"};
  const ImageSources sources = open_image_sources(data, 1, DataUse::kTraining);
  CHECK(sources.train->size() == 2);
  CHECK(sources.validation->label(0) == 1);
  CHECK(sources.contents.size() == 2);
  const ImageSources held_out = open_image_sources(data, 1, DataUse::kEvaluation);
  CHECK(held_out.train == nullptr);
  CHECK(held_out.validation->label(0) == 1);
  CHECK(open_image_sources(data, 1, DataUse::kEvaluation, {"ape", "ant", "bee"}).validation->label(0) == 2);
}

TEST_CASE("image data: drawn pictures need no files, and held-out ones are others") {
  ImageDataConfig data;
  data.drawn = 16;
  data.drawn_validation = 8;
  data.eval_resize = 32;
  const ImageSources sources = open_image_sources(data, 1, DataUse::kTraining);
  const auto first = [](const PictureSource& source) {
    return sha256_of(source.decode(0, {}, [](PictureSize size) { return whole(size); }));
  };
  CHECK(first(*sources.train) != first(*sources.validation));
  CHECK_THROWS_AS(open_image_sources({}, 1, DataUse::kEvaluation), DataError);
}
