#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/skip.h"
#include "tests/train/pictures/golden.h"
#include "train/augment/color.h"
#include "train/augment/crop.h"
#include "train/augment/rand_augment.h"
#include "train/augment/resize.h"
#include "train/base/formats/pictures/decode_picture.h"

using namespace moh;
using namespace moh::test;
using nlohmann::json;

namespace {

using Bytes = std::vector<std::byte>;
using Operation = std::function<Picture(const json& arguments, const Bytes& file)>;

Filter filter_of(const json& arguments) {
  const std::string name = arguments["filter"];
  return name == "box" ? Filter::kBox : name == "bilinear" ? Filter::kBilinear : Filter::kBicubic;
}

AugmentKind augment_kind_of(const std::string& timm) {
  static const std::map<std::string, AugmentKind> kinds = {{"AutoContrast", AugmentKind::kAutoContrast},
                                                           {"Equalize", AugmentKind::kEqualize},
                                                           {"Invert", AugmentKind::kInvert},
                                                           {"Rotate", AugmentKind::kRotate},
                                                           {"PosterizeIncreasing", AugmentKind::kPosterize},
                                                           {"SolarizeIncreasing", AugmentKind::kSolarize},
                                                           {"SolarizeAdd", AugmentKind::kSolarizeAdd},
                                                           {"ColorIncreasing", AugmentKind::kColor},
                                                           {"ContrastIncreasing", AugmentKind::kContrast},
                                                           {"BrightnessIncreasing", AugmentKind::kBrightness},
                                                           {"SharpnessIncreasing", AugmentKind::kSharpness},
                                                           {"ShearX", AugmentKind::kShearX},
                                                           {"ShearY", AugmentKind::kShearY},
                                                           {"TranslateXRel", AugmentKind::kTranslateX},
                                                           {"TranslateYRel", AugmentKind::kTranslateY}};
  return kinds.at(timm);
}

PictureSize size_of(const json& arguments) {
  return {arguments["size"][0], arguments["size"][1]};
}

/// Decodes what the view needs, and no more.
Picture view_of(const Bytes& file, const std::function<PictureView(PictureSize)>& make) {
  std::optional<PictureView> view;
  const Picture source = decode_picture(file, "test", [&](PictureSize size) {
    view.emplace(make(size));
    return view->source();
  });
  return (*view)(source);
}

/// The counterparts of the functions of make_golden.py.
const std::map<std::string, Operation>& operations() {
  static const std::map<std::string, Operation> table = {
      {"resize",
       [](const json& arguments, const Bytes& file) {
         return resize(decode_picture(file, "test"), size_of(arguments), filter_of(arguments));
       }},
      {"center_crop_arr",
       [](const json& arguments, const Bytes& file) {
         return center_crop(decode_picture(file, "test"), arguments["side"]);
       }},
      {"resized_crop",
       [](const json& arguments, const Bytes& file) {
         return view_of(file, [&](PictureSize size) {
           const json& box = arguments["box"];
           const auto share = [&](int i, int side) { return static_cast<int>(double{box[i]} * side); };
           return crop_view({share(0, size.width), share(1, size.height), std::max(1, share(2, size.width)),
                             std::max(1, share(3, size.height))},
                            size_of(arguments), filter_of(arguments));
         });
       }},
      {"evaluation",
       [](const json& arguments, const Bytes& file) {
         return view_of(file, [&](PictureSize size) {
           return center_view(size, arguments["resized"], arguments["crop"], filter_of(arguments));
         });
       }},
      {"flip",
       [](const json&, const Bytes& file) {
         Picture picture = decode_picture(file, "test");
         flip(picture);
         return picture;
       }},
      {"rand_augment",
       [](const json& arguments, const Bytes& file) {
         const json& value = arguments["value"];
         return apply({augment_kind_of(arguments["kind"]), value.is_null() ? 0.0 : double{value}},
                      decode_picture(file, "test"), {124, 116, 104});
       }},
      {"hue",
       [](const json& arguments, const Bytes& file) {
         return apply({AugmentKind::kHue, arguments["turns"]}, decode_picture(file, "test"), {});
       }},
      {"color_jitter",
       [](const json& arguments, const Bytes& file) {
         Picture picture = decode_picture(file, "test");
         for (const std::string kind : arguments["order"]) {
           const auto adjust = kind == "brightness" ? adjust_brightness
                               : kind == "contrast" ? adjust_contrast
                                                    : adjust_saturation;
           adjust(picture, arguments[kind]);
         }
         return picture;
       }},
  };
  return table;
}

void check_case(const json& each, const std::string& pictures, const std::filesystem::path& folder) {
  const json& arguments = each["case"];
  for (const auto& [name, expected] : each[pictures].items()) {
    INFO(arguments.dump() << " of " << name);
    const Picture result = operations().at(arguments["op"])(arguments, bytes_of(folder / name));
    CHECK(sha256_of(result) == expected);
  }
}

}  // namespace

TEST_CASE("pictures: operations give the pixels of Pillow, torchvision and timm") {
  for (const json& each : golden_pictures()["cases"]) check_case(each, "small", pictures_folder() / "data");
}

TEST_CASE("pictures: operations on the ImageNet sample give the libraries' pixels", "[shared]") {
  const auto folder = imagenet_sample();
  if (!folder) MOH_SKIP("MOH_SHARED is not set");
  for (const json& each : golden_pictures()["cases"]) check_case(each, "sample", *folder);
}

TEST_CASE("pictures: sizes that make no sense are refused") {
  CHECK_THAT(message_of<ValueError>([] {
               Resize({0, 5}, {2, 2}, Filter::kBox, {0, 0, 2, 2});
             }),
             Catch::Contains("0 x 5 to 2 x 2"));
  CHECK_THROWS_AS(Resize({5, 5}, {2, 2}, Filter::kBox, {1, 0, 2, 2}), ValueError);
}
