#include "ops/shape/patchify.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "core/error.h"
#include "ops/linalg/linear.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr PatchOrder kOrders[] = {PatchOrder::kChannelRowColumn, PatchOrder::kRowColumnChannel};

struct PatchifySizes {
  std::int64_t batch;
  ImageSize image;
  std::int64_t p;

  Shape images() const { return {batch, image.channels, image.height, image.width}; }
  Shape patches() const { return {batch, (image.height / p) * (image.width / p), image.channels * p * p}; }
};

/// Nothing, one pixel, patches of one pixel, one patch, and patches with more values than a block has
/// threads.
const PatchifySizes patchify_sizes[] = {{0, {3, 4, 4}, 2},  {2, {0, 4, 4}, 2},   {2, {3, 0, 4}, 2},
                                        {1, {1, 1, 1}, 1},  {2, {3, 2, 5}, 1},   {2, {3, 6, 6}, 6},
                                        {2, {4, 6, 10}, 2}, {2, {3, 22, 33}, 11}};

std::string name_of(const PatchifySizes& s, PatchOrder order) {
  return to_string(s.images()) + " p " + std::to_string(s.p) +
         (order == PatchOrder::kChannelRowColumn ? " by channels" : " by pixels");
}

/// Calls copy(image element, patch element), written out from the contract.
template <class Copy>
void each_place(const PatchifySizes& s, PatchOrder order, const Copy& copy) {
  const auto [channels, height, width] = s.image;
  const std::int64_t p = s.p;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
          const std::int64_t patch = (y / p) * (width / p) + x / p, row = y % p, column = x % p;
          const std::int64_t inside = order == PatchOrder::kChannelRowColumn
                                          ? (c * p + row) * p + column
                                          : (row * p + column) * channels + c;
          copy(((b * channels + c) * height + y) * width + x,
               (b * s.patches()[1] + patch) * s.patches()[2] + inside);
        }
}

}  // namespace

OP_CASES(patchify) {
  OpCases cases;
  for (const PatchifySizes& s : patchify_sizes) {
    for (const PatchOrder order : kOrders) {
      cases.push_back({.name = name_of(s, order),
                       .inputs = {normal(s.images())},
                       .run = [=](const Inputs& in) { return Outputs{patchify(in[0], s.p, order)}; },
                       .reference =
                           [=](const std::vector<Tensor>& in) {
                             Tensor y = empty(s.patches(), DType::kFloat64);
                             each_place(s, order, [&](std::int64_t pixel, std::int64_t value) {
                               y.data<double>()[value] = in[0].data<double>()[pixel];
                             });
                             return std::vector<Tensor>{y};
                           }});
    }
  }
  return cases;
}

OP_CASES(unpatchify) {
  OpCases cases;
  for (const PatchifySizes& s : patchify_sizes) {
    for (const PatchOrder order : kOrders) {
      cases.push_back(
          {.name = name_of(s, order),
           .inputs = {normal(s.patches())},
           .run = [=](const Inputs& in) { return Outputs{unpatchify(in[0], s.image, s.p, order)}; },
           .reference =
               [=](const std::vector<Tensor>& in) {
                 Tensor y = empty(s.images(), DType::kFloat64);
                 each_place(s, order, [&](std::int64_t pixel, std::int64_t value) {
                   y.data<double>()[pixel] = in[0].data<double>()[value];
                 });
                 return std::vector<Tensor>{y};
               }});
    }
  }
  return cases;
}

TEST_CASE("ops: unpatchify gives back what patchify took apart") {
  const Tensor images = normal({2, 3, 8, 12}).to(DType::kBFloat16);
  for (const PatchOrder order : kOrders) {
    const Tensor again = unpatchify(patchify(Variable(images), 4, order), {3, 8, 12}, 4, order).value();
    CHECK(std::memcmp(again.raw(), images.raw(), images.bytes()) == 0);
  }
}

TEST_CASE("ops: linear of patches is a convolution whose stride is its kernel") {
  constexpr std::int64_t kChannels = 3, kSide = 8, kOut = 5, kPatch = 4;
  const Tensor images = normal({1, kChannels, kSide, kSide}),
               weight = normal({kOut, kChannels, kPatch, kPatch}, 2);
  const Tensor y = linear(patchify(Variable(images), kPatch, PatchOrder::kChannelRowColumn),
                          Variable(weight.reshape({kOut, kChannels * kPatch * kPatch})), Variable())
                       .value();
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t out = i % kOut, top = i / kOut / (kSide / kPatch) * kPatch,
                       left = i / kOut % (kSide / kPatch) * kPatch;
    double expected = 0;
    for (std::int64_t c = 0; c < kChannels; ++c)
      for (std::int64_t row = 0; row < kPatch; ++row)
        for (std::int64_t column = 0; column < kPatch; ++column)
          expected += images.data<double>()[(c * kSide + top + row) * kSide + left + column] *
                      weight.data<double>()[((out * kChannels + c) * kPatch + row) * kPatch + column];
    CHECK(y.data<double>()[i] == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("ops: patchify and unpatchify refuse what does not fit") {
  const PatchOrder order = PatchOrder::kChannelRowColumn;
  const Variable images(normal({2, 3, 8, 6}));
  CHECK_THROWS_WITH(patchify(images, 4, order),
                    "patchify: height and width: expected multiples of 4, found 8 x 6");
  CHECK_THROWS_AS(patchify(images, 0, order), ValueError);
  CHECK_THROWS_AS(patchify(Variable(normal({3, 8, 8})), 4, order), ShapeError);
  CHECK_THROWS_AS(patchify(Variable(), 4, order), ValueError);
  const Variable patches(normal({2, 4, 12}));
  CHECK_THROWS_WITH(unpatchify(patches, {3, 4, 6}, 2, order),
                    "unpatchify: patches: expected shape [2, 6, 12] (images of [3, 4, 6]), found [2, 4, 12]");
  CHECK_THROWS_AS(unpatchify(patches, {3, 4, 3}, 2, order), ShapeError);
  CHECK_THROWS_AS(unpatchify(patches, {-3, -4, -4}, 2, order), ShapeError);
  CHECK_THROWS_AS(unpatchify(patches, {3, 4, 4}, -2, order), ValueError);
}
