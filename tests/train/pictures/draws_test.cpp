// The choices of augmentation: their distributions, and that they are functions of their key alone.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/sha256.h"
#include "tests/train/pictures/golden.h"
#include "train/augment/crop.h"
#include "train/augment/mixing.h"
#include "train/augment/normalize.h"
#include "train/augment/rand_augment.h"
#include "train/augment/resize.h"
#include "train/base/formats/pictures/decode_picture.h"

using namespace moh;
using namespace moh::test;

namespace {

Draws draws_of(std::uint64_t index) {
  return Draws({5, 6}, index * Draws::kPerSample);
}

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments(std::int64_t count, const std::function<double(Draws&)>& draw) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Draws draws = draws_of(static_cast<std::uint64_t>(i));
    const double value = draw(draws);
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(count);
  return {sum / n, squares / n - sum / n * (sum / n)};
}

std::string sha256_of_numbers(std::span<const float> values) {
  return sha256_hex(std::as_bytes(values));
}

std::vector<float> normalized(const Picture& picture) {
  std::vector<float> values(picture.bytes().size());
  ChannelNormalizer({})(picture, values);
  return values;
}

}  // namespace

TEST_CASE("augment: normalised values are torchvision's, bit for bit") {
  for (const auto& [name, expected] : golden_pictures()["normalized"].items()) {
    INFO(name);
    CHECK(sha256_of_numbers(normalized(decode_picture(sample_bytes(name), name))) == expected);
  }
}

TEST_CASE("augment: mixed pictures and soft targets are timm's, bit for bit") {
  const char* names[] = {"ycc444.jpg", "palette8.png", "gray.jpg", "cmyk.jpg", "rgba8.png"};
  const std::vector<std::int64_t> labels = {3, 0, 3, 6, 1};
  const PictureSize size{48, 32};
  for (const auto& each : golden_pictures()["mixed"]) {
    INFO(each.dump());
    const std::int64_t count = each["count"];
    std::vector<float> pictures;
    for (std::int64_t i = 0; i < count; ++i) {
      const Picture small = resize(decode_picture(sample_bytes(names[i]), names[i]), size, Filter::kBicubic);
      const std::vector<float> values = normalized(small);
      pictures.insert(pictures.end(), values.begin(), values.end());
    }
    Mix mix{each["lambda"], {}};
    if (!each["center"].is_null()) mix = cutmix_at(mix.lambda, each["center"][0], each["center"][1], size);
    CHECK(mix.lambda == each["corrected"]);
    mix_pictures(pictures, count, size, mix);
    CHECK(sha256_of_numbers(pictures) == each["pictures"]);
    std::vector<float> targets(static_cast<std::size_t>(count) * 7);
    soft_targets(std::span(labels).first(static_cast<std::size_t>(count)), 7, each["smoothing"], mix.lambda,
                 targets);
    CHECK(sha256_of_numbers(targets) == each["targets"]);
  }
}

TEST_CASE("augment: a crop that never fits is torchvision's in the middle") {
  for (const auto& c : golden_pictures()["crops_that_do_not_fit"]) {
    Draws draws = draws_of(1);
    const PictureBox box = draw_crop({.scale = {5, 5}}, {c[0], c[1]}, draws);
    CHECK(box == PictureBox{c[2], c[3], c[4], c[5]});
  }
}

TEST_CASE("augment: crops lie within the picture and have the areas and ratios asked for") {
  const PictureSize size{400, 300};
  std::map<int, int> corners;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    Draws draws = draws_of(i);
    const PictureBox box = draw_crop({}, size, draws);
    REQUIRE(is_within(box, size));
    const double share = box.width * box.height / 120000.0, ratio = double(box.width) / box.height;
    REQUIRE(share > 0.078);
    REQUIRE(ratio > 0.74);
    REQUIRE(ratio < 1.35);
    ++corners[(box.left + box.width / 2 < 200) + 2 * (box.top + box.height / 2 < 150)];
  }
  for (const auto& [corner, count] : corners) CHECK(count > 350);
  const Moments area = moments(4000, [&](Draws& draws) {
    const PictureBox box = draw_crop({.scale = {0.1, 0.5}}, size, draws);
    return box.width * box.height / 120000.0;
  });
  CHECK(area.mean == Approx(0.3).margin(0.01));  // of a uniform share that always fits
  CHECK(area.variance == Approx(0.16 / 12).epsilon(0.05));
}

TEST_CASE("augment: RandAugment is read as timm writes it") {
  const RandAugment a = RandAugment::parse("rand-m9-mstd0.5-inc1");
  CHECK(a.magnitude == 9);
  CHECK(a.magnitude_std == 0.5);
  CHECK(a.ops == 2);
  CHECK(a.probability == 0.5);
  CHECK(RandAugment::parse("rand-m7-n3-p1-inc1").ops == 3);
  for (const char* text : {"", "rand", "augmix-m3", "rand-m9", "rand-m9-inc2", "rand-m11-inc1",
                           "rand-mx-inc1", "rand-m9-inc1-w0", "rand-m9-inc1x"}) {
    INFO(text);
    CHECK_THROWS_AS(RandAugment::parse(text), ValueError);
  }
}

TEST_CASE("augment: levels give timm's arguments") {
  CHECK(augment_value(AugmentKind::kRotate, 9, false) == Approx(27));
  CHECK(augment_value(AugmentKind::kRotate, 9, true) == Approx(-27));
  CHECK(augment_value(AugmentKind::kPosterize, 9, false) == 1);
  CHECK(augment_value(AugmentKind::kPosterize, 10, false) == 0);
  CHECK(augment_value(AugmentKind::kSolarize, 9, false) == 26);
  CHECK(augment_value(AugmentKind::kSolarizeAdd, 9, false) == 99);
  CHECK(augment_value(AugmentKind::kSharpness, 9, false) == Approx(1.81));
  CHECK(augment_value(AugmentKind::kColor, 9, true) == Approx(0.19));
  CHECK(augment_value(AugmentKind::kContrast, 10, true) == Approx(0.1));
  CHECK(augment_value(AugmentKind::kShearX, 10, true) == Approx(-0.3));
  CHECK(augment_value(AugmentKind::kTranslateY, 10, false) == Approx(0.45));
}

TEST_CASE("augment: RandAugment applies each operation in a fifteenth of its draws") {
  std::map<AugmentKind, int> seen;
  int total = 0, positive = 0, rotated = 0;
  double levels = 0, squares = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    Draws draws = draws_of(i);
    for (const AugmentOp& op : draw_rand_augment({}, draws)) {
      ++seen[op.kind];
      ++total;
      if (op.kind != AugmentKind::kRotate) continue;
      const double level = std::abs(op.value) / 3;
      ++rotated;
      positive += op.value > 0;
      levels += level;
      squares += level * level;
    }
  }
  CHECK(total / 20000.0 == Approx(1).margin(0.02));  // two, each with probability 1/2
  CHECK(seen.size() == 15);
  for (const auto& [kind, count] : seen) CHECK(count == Approx(total / 15.0).epsilon(0.12));
  CHECK(double(positive) / rotated == Approx(0.5).margin(0.05));
  const double mean = levels / rotated;
  CHECK(mean == Approx(9).margin(0.05));
  CHECK(std::sqrt(squares / rotated - mean * mean) == Approx(0.48).margin(0.05));  // clipped at 10
}

TEST_CASE("augment: colour jitter draws factors around 1, in any order") {
  std::set<std::vector<AugmentKind>> orders;
  std::set<int> hues;
  for (std::uint64_t i = 0; i < 400; ++i) {
    Draws draws = draws_of(i);
    std::vector<AugmentKind> order;
    for (const AugmentOp& op : draw_color_jitter({0.4, 0.4, 0.4, 0.1}, draws)) {
      order.push_back(op.kind);
      const bool hue = op.kind == AugmentKind::kHue;
      REQUIRE(op.value >= (hue ? -0.1 : 0.6));
      REQUIRE(op.value <= (hue ? 0.1 : 1.4));
      hues.insert(hue && op.value < 0 ? -1 : hue ? 1 : 0);
    }
    orders.insert(order);
  }
  CHECK(orders.size() == 24);
  CHECK(hues.size() == 3);
  Draws draws = draws_of(0);
  CHECK(draw_color_jitter({.contrast = 0.4}, draws).size() == 1);
}

TEST_CASE("augment: erased boxes have the share and shape asked for, and noise in them alone") {
  const PictureSize size{60, 40};
  int erased = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    Draws draws = draws_of(i);
    const auto box = draw_erased_box({}, size, draws);
    if (!box) continue;
    ++erased;
    REQUIRE(is_within(*box, size));
    REQUIRE(box->width * box->height < 0.36 * 2400);
    REQUIRE(box->width * box->height > 0.015 * 2400);
  }
  CHECK(erased / 4000.0 == Approx(0.25).margin(0.02));

  std::vector<float> picture(2400 * 3, 7.0F);
  const PictureBox box{10, 5, 20, 30};
  erase(picture, size, box, {1, 2}, 100);
  double sum = 0, squares = 0;
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 60; ++x) {
      const bool inside = x >= 10 && x < 30 && y >= 5 && y < 35;
      for (int c = 0; c < 3; ++c) {
        const float value = picture[(static_cast<std::size_t>(y) * 60 + static_cast<std::size_t>(x)) * 3 +
                                    static_cast<std::size_t>(c)];
        REQUIRE((value == 7.0F) == !inside);
        if (inside) sum += value, squares += double{value} * value;
      }
    }
  }
  CHECK(std::abs(sum / 1800) < 0.1);
  CHECK(squares / 1800 == Approx(1).margin(0.1));
  CHECK(picture[(5 * 60 + 10) * 3] == static_cast<float>(random_normal({1, 2}, 100)));
}

TEST_CASE("augment: lambda has the moments of a Beta distribution") {
  for (const double alpha : {0.2, 0.8, 1.0, 3.0}) {
    INFO(alpha);
    const Moments found = moments(20000, [&](Draws& draws) { return draw_beta(alpha, draws); });
    CHECK(found.mean == Approx(0.5).margin(0.01));
    CHECK(found.variance == Approx(1 / (4 * (2 * alpha + 1))).epsilon(0.03));
  }
}

TEST_CASE("augment: half of the groups are cut, and all are mixed") {
  int cut = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    Draws draws = draws_of(i);
    const Mix mix = draw_mix({}, {224, 224}, draws);
    REQUIRE(mix.lambda >= 0);
    REQUIRE(mix.lambda <= 1);
    cut += mix.box.width > 0;
  }
  CHECK(cut / 4000.0 == Approx(0.5).margin(0.03));
  Draws draws = draws_of(0);
  CHECK(draw_mix({.mixup_alpha = 0, .cutmix_alpha = 0}, {8, 8}, draws).lambda == 1);
  CHECK(draw_mix({.probability = 0}, {8, 8}, draws).lambda == 1);
}

TEST_CASE("augment: what is drawn depends on key and sample alone") {
  Draws first = draws_of(3), again = draws_of(3), other = draws_of(4);
  CHECK(first.uniform() == again.uniform());
  CHECK(first.below(1000) == again.below(1000));
  CHECK(first.normal() == again.normal());
  CHECK(first.uniform() != other.uniform());
}
