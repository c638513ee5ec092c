#include "ops/dropout/dropout.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr RandomKey kDropoutKey{0x123456789abcdefULL, (std::uint64_t{7} << 20) + 3};

bool is_kept(double p, RandomKey key, std::int64_t i) {
  const auto words = philox(key.seed, static_cast<std::uint64_t>(i) / 4, key.stream);
  return words[static_cast<std::size_t>(i % 4)] >= std::round(p * 0x1p32);
}

double kept_share(const Tensor& y) {
  double kept = 0.0;
  for (const float value : y.span<float>()) kept += value != 0.0F;
  return kept / static_cast<double>(y.numel());
}

}  // namespace

OP_CASES(dropout) {
  OpCases cases;
  for (const double p : {0.1, 0.75}) {
    for (const Shape& shape : {Shape{}, Shape{0, 4}, Shape{1}, Shape{3, 7}, Shape{257}}) {
      cases.push_back({.name = to_string(shape) + " p " + std::to_string(p),
                       .inputs = {normal(shape)},
                       .run = [=](const Inputs& in) { return Outputs{dropout(in[0], p, kDropoutKey)}; },
                       .reference =
                           [=](const std::vector<Tensor>& in) {
                             Tensor y = empty_like(in[0]);
                             for (std::int64_t i = 0; i < y.numel(); ++i) {
                               const double scale = is_kept(p, kDropoutKey, i) ? 1.0 / (1.0 - p) : 0.0;
                               y.data<double>()[i] = in[0].data<double>()[i] * scale;
                             }
                             return std::vector<Tensor>{y};
                           }});
    }
  }
  return cases;
}

TEST_CASE("ops: dropout drops the share p, by a mask that the key alone decides") {
  const Variable x(full({100, 1003}, 1.0, DType::kFloat32));
  const Tensor y = dropout(x, 0.3, kDropoutKey).value();
  // Five standard deviations of a binomial share.
  const double deviation = std::sqrt(0.3 * 0.7 / static_cast<double>(y.numel()));
  CHECK(std::abs(kept_share(y) - 0.7) < 5.0 * deviation);
  for (std::int64_t i = 0; i < y.numel(); i += 37) {
    REQUIRE((y.data<float>()[i] != 0.0F) == is_kept(0.3, kDropoutKey, i));
  }
  // Two masks agree by chance only.
  const Tensor other = dropout(x, 0.3, {kDropoutKey.seed, kDropoutKey.stream + 1}).value();
  double both = 0.0;
  for (std::int64_t i = 0; i < y.numel(); ++i)
    both += y.data<float>()[i] != 0.0F && other.data<float>()[i] != 0.0F;
  CHECK(both / static_cast<double>(y.numel()) == Approx(0.49).margin(5.0 * 0.0016));
}

TEST_CASE("ops: dropout has the mask of the key with every instruction set", "[every_isa]") {
  const Variable x(full({3001}, 1.0, DType::kFloat32));
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    const Tensor y = dropout(x, 0.3, kDropoutKey).value();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < y.numel(); ++i)
      wrong += (y.data<float>()[i] != 0.0F) != is_kept(0.3, kDropoutKey, i);
    INFO(cpu_isa_name(isa));
    CHECK(wrong == 0);
  }
}

TEST_CASE("ops: dropout of probability 0 is the identity, and close to 1 drops nearly all") {
  const Variable x(normal({100}), true);
  CHECK(dropout(x, 0.0, kDropoutKey).value().shares_storage_with(x.value()));
  CHECK(dropout(x, 0.0, kDropoutKey).is_leaf());
  const Variable ones(full({100}, 1.0, DType::kFloat32));
  CHECK(kept_share(dropout(ones, std::nextafter(1.0, 0.0), kDropoutKey).value()) == 0.0);
}

TEST_CASE("ops: dropout refuses what does not fit") {
  const Variable x(normal({3}));
  CHECK_THROWS_WITH(dropout(x, 1.0, kDropoutKey),
                    "dropout: p: expected 0 or more and below 1, found 1.000000");
  CHECK_THROWS_AS(dropout(x, -0.1, kDropoutKey), ValueError);
  CHECK_THROWS_AS(dropout(x, NAN, kDropoutKey), ValueError);
  CHECK_THROWS_AS(dropout(Variable(), 0.1, kDropoutKey), ValueError);
  CHECK_THROWS_AS(dropout(Variable(zeros({2}, DType::kInt32)), 0.1, kDropoutKey), DTypeError);
}
