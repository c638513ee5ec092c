#include "train/heads/analyze/feature_rank.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

using namespace moh;

TEST_CASE("analyze: rank and effective rank of known spectra") {
  // Singular values 10, 10, 0.2, 0.05.
  const std::array<double, 4> values = {100, 100, 0.04, 0.0025};
  CHECK(feature_rank(values, 0.01).rank == 3);
  CHECK(feature_rank(values, 0.001).rank == 4);
  CHECK(feature_rank(values, 0.1).rank == 2);
  CHECK(feature_rank(values, 0.01).largest == 4);
  CHECK(feature_rank(std::array{9.0, 9.0, 9.0}, 0.01).effective == Approx(3));
  CHECK(feature_rank(std::array{4.0, 0.0, -1e-18}, 0.01).effective == Approx(1));
  CHECK(feature_rank(std::array{4.0, 0.0, -1e-18}, 0.01).rank == 1);
  // Shares 3/4 and 1/4.
  CHECK(feature_rank(std::array{9.0, 1.0}, 0.01).effective == Approx(4 / std::pow(3.0, 0.75)));
  CHECK(feature_rank(std::array{0.0, 0.0}, 0.01).rank == 0);
  CHECK(feature_rank(std::array{0.0, 0.0}, 0.01).effective == 0);
}

TEST_CASE("analyze: rank of heads and of what groups of heads add to the output") {
  // Three heads of width 2. Head 0 uses one direction, head 1 two, head 2 is never used.
  const Tensor first = tensor_of<float>({2, 6}, {1, 1, 1, 0, 0, 0, 2, 2, 0, 1, 0, 0});
  const Tensor second = tensor_of<float>({1, 6}, {0, 0, 1, 1, 0, 0});
  HeadMoments moments(3, 2);
  moments.add(first);
  moments.add(second);
  CHECK(moments.of_head(0, 0.01).rank == 1);
  CHECK(moments.of_head(0, 0.01).effective == Approx(1));
  CHECK(moments.of_head(1, 0.01).rank == 2);
  CHECK(moments.of_head(2, 0.01).rank == 0);
  CHECK(moments.of_head(1, 0.01).largest == 2);

  // Every head writes to outputs of its own: ranks add up.
  const Tensor apart = zeros({7, 6}, DType::kFloat32);
  for (std::int64_t i = 0; i < 6; ++i) apart.data<float>()[i * 6 + i] = 1;
  CHECK(moments.of_group({"all", {0, 1, 2}}, apart, 0.01).rank == 3);
  CHECK(moments.of_group({"all", {0, 1, 2}}, apart, 0.01).largest == 6);
  CHECK(moments.of_group({"shared", {0}}, apart, 0.01).rank == 1);
  CHECK(moments.of_group({"routed", {1, 2}}, apart, 0.01).rank == 2);
  CHECK(moments.of_group({"routed", {1, 2}}, apart, 0.01).largest == 4);
  CHECK(moments.of_group({"routed", {0, 2}}, apart, 0.01).rank == 1);  // heads need not be neighbours
  CHECK(moments.of_group({"shared", {0, 2}}, apart, 0.01).largest == 4);
  // With equal length of all singular values the effective rank is the rank.
  HeadMoments unit(1, 2);
  unit.add(tensor_of<float>({2, 2}, {1, 0, 0, 1}));
  CHECK(unit.of_group({"all", {0}}, tensor_of<float>({2, 2}, {0, 3, 3, 0}), 0.01).effective == Approx(2));

  // A projection that maps all heads onto one output leaves one direction.
  const Tensor onto_one = full({1, 6}, 1, DType::kFloat32);
  CHECK(moments.of_group({"all", {0, 1, 2}}, onto_one, 0.01).rank == 1);
  CHECK(moments.of_group({"all", {0, 1, 2}}, onto_one, 0.01).largest == 1);
  // One that cancels what head 0 gives, (x, x), leaves nothing of it.
  const Tensor difference = tensor_of<float>({1, 6}, {1, -1, 0, 0, 0, 0});
  CHECK(moments.of_group({"all", {0, 1, 2}}, difference, 0.01).rank == 0);
}

TEST_CASE("analyze: second moments do not depend on how tokens are dealt to batches") {
  const Tensor x = tensor_of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 9});
  HeadMoments whole(1, 2), parts(1, 2);
  whole.add(x);
  parts.add(x.slice(0, 1));
  parts.add(x.slice(1, 4).to(DType::kFloat64));
  const Tensor identity = tensor_of<float>({2, 2}, {1, 0, 0, 1});
  CHECK(whole.of_group({"all", {0}}, identity, 1e-9).effective ==
        Approx(parts.of_group({"all", {0}}, identity, 1e-9).effective).epsilon(1e-12));
}
