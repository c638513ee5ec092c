#include "models/vision/inception.h"

#include <catch2/catch.hpp>
#include <map>

#include "core/error.h"
#include "models/vision/resize_bilinear.h"

using namespace moh;

TEST_CASE("inception: it has the convolutions of the published files") {
  std::map<std::string, InceptionConv> by_name;
  std::int64_t numbers = 0;
  for (const InceptionBlock& block : inception_blocks()) {
    for (const InceptionBranch& branch : block.branches) {
      for (const auto* part : {&branch.chain, &branch.fork}) {
        for (const InceptionConv& conv : *part) {
          by_name.emplace(conv.name, conv);
          numbers += conv.out * conv.in * conv.kernel.y * conv.kernel.x;
        }
      }
    }
  }
  CHECK(by_name.size() == 94);
  CHECK(numbers == 21'751'136);
  const auto conv = [&](const char* name) { return by_name.at(name); };
  CHECK(conv("Conv2d_4a_3x3").graph_name == "conv_4");
  CHECK(conv("Mixed_5b.branch1x1").graph_name == "mixed/conv");
  CHECK(conv("Mixed_6a.branch3x3dbl_3").graph_name == "mixed_3/tower/conv_2");
  CHECK(conv("Mixed_6d.branch7x7dbl_5").graph_name == "mixed_6/tower_1/conv_4");
  CHECK(conv("Mixed_6d.branch_pool").graph_name == "mixed_6/tower_2/conv");
  CHECK(conv("Mixed_7a.branch7x7x3_4").graph_name == "mixed_8/tower_1/conv_3");
  CHECK(conv("Mixed_7c.branch3x3dbl_3b").graph_name == "mixed_10/tower_1/mixed/conv_1");
  CHECK(conv("Mixed_7c.branch3x3_2a").padding.x == 1);
  CHECK(conv("Mixed_7c.branch3x3_2a").padding.y == 0);
  CHECK(conv("Mixed_7b.branch1x1").in == 1280);
}

TEST_CASE("resize_bilinear: pixels are where each program has them") {
  const std::vector<std::uint8_t> from = {0, 10, 100, 40, 30, 200};  // two pixels
  const auto resized = [&](PixelCenters centers) {
    std::vector<float> to(4 * 3);
    resize_bilinear(from, {1, 2}, centers, to, {1, 4});
    return std::vector<float>{to[0], to[3], to[6], to[9], to[11]};
  };
  CHECK(resized(PixelCenters::kCorner) == std::vector<float>{0, 20, 40, 40, 200});
  CHECK(resized(PixelCenters::kHalf) == std::vector<float>{0, 10, 30, 40, 200});
  std::vector<float> smaller(3);
  resize_bilinear(from, {2, 1}, PixelCenters::kHalf, smaller, {1, 1});
  CHECK(smaller == std::vector<float>{20, 20, 150});
  resize_bilinear(from, {2, 1}, PixelCenters::kCorner, smaller, {1, 1});
  CHECK(smaller == std::vector<float>{0, 10, 100});
  CHECK_THROWS_AS(resize_bilinear(from, {1, 3}, PixelCenters::kHalf, smaller, {1, 1}), ValueError);
  CHECK_THROWS_AS(resize_bilinear({}, {0, 1}, PixelCenters::kHalf, smaller, {1, 1}), ValueError);
}
