#include "train/families/diffusion/diffusion_starts.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "core/error.h"

using namespace moh;

namespace {

constexpr std::size_t kElements = 4 * 3 * 3;

/// Means that say picture and view, and deviations by element.
class Marked final : public LatentSource {
 public:
  std::int64_t size() const override { return 5; }
  std::int64_t label(std::int64_t index) const override { return index; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string name(std::int64_t index) const override { return std::to_string(index); }
  std::string describe_contents() const override { return ""; }
  std::int64_t channels() const override { return 4; }
  std::int64_t width() const override { return 3; }
  double scaling_factor() const override { return 0.5; }
  const std::string& autoencoder() const override { return hash_; }
  void read(std::int64_t index, LatentView view, std::span<float> mean,
            std::span<float> deviation) const override {
    if (index == broken) throw DataError("broken");
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] = static_cast<float>(1000 * index + (view == LatentView::kMirrored ? 500 : 0));
      deviation[i] = static_cast<float>(i + 1);
    }
  }

  std::int64_t broken = -1;

 private:
  std::vector<std::string> names_ = {"a", "b", "c", "d", "e"};
  std::string hash_;
};

std::unique_ptr<TrainingStarts> starts(const LatentSampling& sampling = {}, std::int64_t broken = -1) {
  auto source = std::make_shared<Marked>();
  source->broken = broken;
  return starts_of(std::move(source), SampleOrder(5, 1, 7), sampling);
}

std::vector<float> made_start(const TrainingStarts& from, std::int64_t sample) {
  std::vector<float> start(kElements);
  from.make(sample, start);
  return start;
}

std::int64_t label_of(const TrainingStarts& from, std::int64_t sample) {
  std::vector<float> start(kElements);
  return from.make(sample, start);
}

}  // namespace

TEST_CASE("latent samples: mean plus deviation times noise, scaled, anew for each sample") {
  const auto from = starts({.flip = 0.25, .seed = 3});
  double sum = 0, squares = 0, mirrored = 0;
  constexpr int kSamples = 4000;
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    const std::vector<float> start = made_start(*from, sample);
    const std::int64_t picture = from->order().picture_of(sample);
    CHECK(label_of(*from, sample) == picture);
    const bool is_mirrored = start[0] / 0.5F - 1000.0F * static_cast<float>(picture) > 250;
    mirrored += is_mirrored ? 1.0 / kSamples : 0;
    for (std::size_t i = 0; i < kElements; ++i) {
      const double normal =
          (start[i] / 0.5 - 1000.0 * static_cast<double>(picture) - (is_mirrored ? 500 : 0)) /
          static_cast<double>(i + 1);
      sum += normal / (kSamples * kElements);
      squares += normal * normal / (kSamples * kElements);
    }
  }
  CHECK(sum == Approx(0).margin(0.01));
  CHECK(squares == Approx(1).margin(0.02));
  CHECK(mirrored == Approx(0.25).margin(0.03));
  CHECK(made_start(*from, 17) == made_start(*starts({.flip = 0.25, .seed = 3}), 17));
  CHECK(made_start(*from, 17) != made_start(*starts({.flip = 0.25, .seed = 4}), 17));
  // A picture has other noise in the next epoch.
  std::int64_t again = 18;
  while (from->order().picture_of(again) != from->order().picture_of(17)) ++again;
  CHECK(made_start(*from, again) != made_start(*from, 17));
}

TEST_CASE("latent samples: held-out ones are as the pictures are, with noise of their number") {
  const HeldOutStartsPtr held_out = held_out_starts(std::make_shared<Marked>());
  std::vector<float> first(kElements), again(kElements), second(kElements);
  held_out->make(1, first);
  held_out->make(1, again);
  held_out->make(2, second);
  CHECK(first == again);
  CHECK(std::abs(first[0] / 0.5F - 1000) < 10);
  CHECK(first[0] - 500 != second[0] - 1000);
  CHECK(held_out->label(2) == 2);
}

TEST_CASE("latent samples: the next picture stands in for a broken one, where that is wanted") {
  std::int64_t sample = 0;
  while (SampleOrder(5, 1, 7).picture_of(sample) != 2) ++sample;
  std::vector<float> start(kElements);
  CHECK_THROWS_AS(starts({}, 2)->make(sample, start), DataError);
  const auto broken = std::make_shared<BrokenPictures>();
  const auto from = starts({.flip = 0, .on_error = OnError::kSkip, .broken = broken}, 2);
  CHECK(from->make(sample, start) == 3);
  CHECK(std::abs(start[0] / 0.5F - 3000) < 10);
  CHECK(broken->count() == 1);
}
