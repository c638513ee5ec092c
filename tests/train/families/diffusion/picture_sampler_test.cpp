#include "train/families/diffusion/sampling/picture_sampler.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/same_bits.h"
#include "train/base/formats/pictures/decode_picture.h"
#include "train/base/formats/pictures/encode_png.h"
#include "train/families/diffusion/sampling/training_samples.h"

using namespace moh;
using namespace moh::test;

namespace {

DitConfig tiny() {
  DitConfig c{
      .image_size = 8, .patch_size = 2, .channels = 3, .classes = 5, .layers = 2, .hidden = 16, .heads = 4};
  c.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2};
  return c;
}

struct Drawn {
  Drawn() : model(tiny(), DType::kFloat32) {
    model.initialise(1);
    for (const NamedParameter& p : model.parameters()) {
      if (p.variable.requires_grad()) fill_normal(p.variable.value(), initialisation_key(9, p.name), 0, 0.1);
    }
  }
  Tensor sample(const SampleOptions& options, const std::vector<std::int64_t>& numbers,
                const std::vector<std::int64_t>& labels) const {
    return PictureSampler(model, options).sample(numbers, labels, [] { return false; });
  }
  Dit model;
};

}  // namespace

TEST_CASE("sampling: a picture is the same in any batch, and another for another seed, number or class") {
  const Drawn drawn;
  for (const auto& [objective, kind] : std::vector<std::pair<DiffusionObjective, SamplerKind>>{
           {DiffusionObjective::kNoise, SamplerKind::kAncestral},
           {DiffusionObjective::kNoise, SamplerKind::kDdim},
           {DiffusionObjective::kNoise, SamplerKind::kDpmSolver},
           {DiffusionObjective::kFlow, SamplerKind::kEuler},
           {DiffusionObjective::kFlow, SamplerKind::kHeun},
           {DiffusionObjective::kFlow, SamplerKind::kEulerMaruyama}}) {
    const SampleOptions options{.objective = objective,
                                .steps = "5",
                                .reverse = {.kind = kind},
                                .guided_levels = {0.1, 3},
                                .seed = 3};
    INFO(static_cast<int>(kind));
    const Tensor both = drawn.sample(options, {4, 9}, {1, 2});
    CHECK(same_bits(drawn.sample(options, {9}, {2}), both.slice(1, 2)));
    CHECK_FALSE(same_bits(drawn.sample(options, {9}, {3}), both.slice(1, 2)));
    CHECK_FALSE(same_bits(drawn.sample(options, {8}, {2}), both.slice(1, 2)));
    SampleOptions other = options;
    other.seed = 4;
    CHECK_FALSE(same_bits(drawn.sample(other, {9}, {2}), both.slice(1, 2)));
  }
}

TEST_CASE("sampling: a sampler that does not go with the objective is refused") {
  const Drawn drawn;
  CHECK_THROWS_AS(drawn.sample({.objective = DiffusionObjective::kFlow, .steps = "2"}, {0}, {1}), ValueError);
  CHECK_THROWS_AS(drawn.sample({.steps = "2", .reverse = {.kind = SamplerKind::kEuler}}, {0}, {1}),
                  ValueError);
  SampleOptions flow{
      .objective = DiffusionObjective::kFlow, .steps = "10,15", .reverse = {.kind = SamplerKind::kHeun}};
  CHECK_THROWS_AS(drawn.sample(flow, {0}, {1}), ValueError);
  flow.steps = "7";
  CHECK(number_of_steps(flow) == 7);
  CHECK(model_passes(flow) == 28);  // two passes in each step, with and without a label
}

TEST_CASE("sampling: guidance in an interval is guidance there, and none beyond it") {
  const Drawn drawn;
  SampleOptions options{.steps = "6", .reverse = {.kind = SamplerKind::kDdim}, .guidance = 3};
  const auto draw = [&] { return drawn.sample(options, {0, 1}, {1, 2}); };
  const Tensor everywhere = draw();
  options.guidance = 1;
  const Tensor nowhere = draw();
  options.guidance = 3;
  const NoiseSchedule steps = NoiseSchedule::linear(kDiffusionSteps).respaced(steps_of("6", kDiffusionSteps));
  options.guided_levels = {steps[0].per_noise / 2, steps[5].per_noise};  // its upper end belongs to it
  CHECK(same_bits(draw(), everywhere));
  options.guided_levels = {steps[5].per_noise, 1e9};  // its lower end does not
  CHECK(same_bits(draw(), nowhere));
  options.guided_levels = {steps[1].per_noise, steps[4].per_noise};
  const Tensor within = draw();
  CHECK_FALSE(same_bits(within, everywhere));
  CHECK_FALSE(same_bits(within, nowhere));
}

TEST_CASE("sampling: the ways of a flow without noise are the same on every path, guided to their end") {
  const Drawn drawn;
  for (const SamplerKind kind : {SamplerKind::kEuler, SamplerKind::kHeun}) {
    SampleOptions options{
        .objective = DiffusionObjective::kFlow, .steps = "3", .reverse = {.kind = kind}, .guidance = 3};
    const Tensor linear = drawn.sample(options, {0, 1}, {1, 2});
    options.path = FlowPath::kCosine;  // at t = 1 it has a little noise, and the linear path none
    CHECK(same_bits(drawn.sample(options, {0, 1}, {1, 2}), linear));
  }
}

TEST_CASE("sampling: a model of velocities and one of the same noise make the same picture") {
  // A model that predicts zeros: as a velocity, signal x is the start; as noise, x / signal.
  DitConfig config = tiny();
  config.learn_variance = false;
  Dit model(config, DType::kFloat32);
  model.initialise(1);
  const std::vector<std::int64_t> one = {0};
  SampleOptions options{.objective = DiffusionObjective::kVelocity,
                        .steps = "1",
                        .reverse = {.kind = SamplerKind::kDdim},
                        .guidance = 1};
  const auto draw = [&] { return PictureSampler(model, options).sample(one, one, [] { return false; }); };
  const Tensor velocity = draw();
  options.objective = DiffusionObjective::kNoise;
  const Tensor noise = draw();
  const NoiseStep first = NoiseSchedule::linear(kDiffusionSteps)[0];
  for (std::int64_t i = 0; i < noise.numel(); ++i)
    CHECK(velocity.data<float>()[i] ==
          Approx(noise.data<float>()[i] * first.signal * first.signal).margin(1e-5));
}

TEST_CASE("sampling: guidance of scale 1 is the model with labels alone, and a request stops it") {
  const Drawn drawn;
  SampleOptions options{.steps = "4", .reverse = {.kind = SamplerKind::kDdim}, .guidance = 1.0};
  const Tensor plain = drawn.sample(options, {0}, {1});
  options.guidance = 1.0 + 1e-6;  // runs both halves
  const Tensor almost = drawn.sample(options, {0}, {1});
  for (std::int64_t i = 0; i < plain.numel(); ++i)
    CHECK(almost.data<float>()[i] == Approx(plain.data<float>()[i]).margin(1e-3));
  int calls = 0;
  const std::vector<std::int64_t> one = {0};
  CHECK_FALSE(PictureSampler(drawn.model, options).sample(one, one, [&] { return ++calls == 3; }).defined());
  CHECK(calls == 3);
  options.guided_channels = 4;
  CHECK_THROWS_AS(PictureSampler(drawn.model, options), ValueError);
  options = {.steps = "1001"};
  CHECK_THROWS_AS(PictureSampler(drawn.model, options), ValueError);
}

TEST_CASE("sampling: labels at random are spread over all classes") {
  std::vector<int> counts(10);
  for (std::int64_t i = 0; i < 5000; ++i) ++counts[static_cast<std::size_t>(random_label(7, i, 10))];
  for (const int count : counts) CHECK(std::abs(count - 500) < 100);
}

TEST_CASE("sampling: pixels are cut and truncated, and a PNG file gives them back") {
  const Tensor values = empty({3, 2, 3}, DType::kFloat32);
  for (std::int64_t i = 0; i < 18; ++i) values.data<float>()[i] = -1.3F + 0.15F * static_cast<float>(i);
  const Picture picture = to_picture(values);
  REQUIRE(picture.size() == PictureSize{3, 2});
  for (std::int64_t i = 0; i < 18; ++i) {
    const float level = std::min(std::max(127.5F * values.data<float>()[i] + 128.0F, 0.0F), 255.0F);
    CHECK(picture.bytes()[static_cast<std::size_t>(i % 6 * 3 + i / 6)] == static_cast<int>(level));
  }
  const std::string file = encode_png(picture);
  const Picture read = decode_picture(std::as_bytes(std::span(file)), "a.png");
  CHECK(read.size() == picture.size());
  CHECK(std::ranges::equal(read.bytes(), picture.bytes()));
}

TEST_CASE("sampling: what a run draws has the classes in turns, is for pixels, and stops when it is asked") {
  const Drawn drawn;
  TrainingSamples sample{.pictures = 9, .options = {.steps = "3", .guidance = 1}};
  const auto draw = [&](const Dit& model, std::int64_t stop_at) {
    return draw_training_samples(
        model, nullptr, sample, 5, [&](const EvaluationProgress& p) { return p.done == stop_at; },
        one_process());
  };
  const std::string png = *draw(drawn.model, -1);
  const Picture grid = decode_picture(std::as_bytes(std::span(png)), "grid.png");
  REQUIRE(grid.size() == PictureSize{8 * 9 - 1, 17});
  SampleOptions options = sample.options;
  options.seed = 5;
  options.reverse.clip_start = true;  // as pixels have bounds
  const Picture sixth = to_picture(drawn.sample(options, {6}, {6 % 5}).select(0));
  for (int y = 0; y < 8; ++y) CHECK(std::equal(sixth.row(y), sixth.row(y) + 24, grid.row(y) + 6 * 9 * 3));
  CHECK_FALSE(draw(drawn.model, 2).has_value());
  DitConfig latents = tiny();
  latents.channels = 4;
  CHECK(draw(Dit(latents, DType::kFloat32), -1)->empty());
  sample.pictures = 0;
  CHECK(draw(drawn.model, -1)->empty());
}

TEST_CASE("sampling: a grid has its pictures in rows") {
  std::vector<Picture> pictures;
  for (const int level : {10, 20, 30}) {
    Picture& picture = pictures.emplace_back(PictureSize{2, 2});
    std::ranges::fill(picture.bytes(), static_cast<std::uint8_t>(level));
  }
  const Picture grid = picture_grid(pictures, 2);
  CHECK(grid.size() == PictureSize{5, 5});
  CHECK(int{grid.row(0)[0]} == 10);
  CHECK(int{grid.row(0)[2 * 3]} == 0);
  CHECK(int{grid.row(1)[4 * 3 + 2]} == 20);
  CHECK(int{grid.row(4)[0]} == 30);
  CHECK(int{grid.row(4)[4 * 3]} == 0);
}

TEST_CASE("sampling: latents are decoded, unscaled, whatever batch they are in") {
  DitConfig config = tiny();
  config.channels = 4;
  Dit model(config, DType::kBFloat16);  // beside an autoencoder in float32
  model.initialise(1);
  AutoencoderConfig sizes{.block_out_channels = {4, 8}, .layers_per_block = 1, .norm_num_groups = 2};
  const Autoencoder autoencoder(sizes, DType::kFloat32);
  for (const NamedParameter& p : autoencoder.parameters())
    fill_normal(p.variable.value(), initialisation_key(5, p.name), 0, 0.2);
  const SampleOptions options{.steps = "3", .seed = 3};
  const auto draw = [&](const Autoencoder* decoder, const std::vector<std::int64_t>& numbers) {
    const std::vector<std::int64_t> labels(numbers.size(), 1);
    return PictureSampler(model, options, decoder).sample(numbers, labels, [] { return false; });
  };
  const Tensor pictures = draw(&autoencoder, {4, 9});
  CHECK(pictures.shape() == Shape{2, 3, 16, 16});
  CHECK(PictureSampler(model, options, &autoencoder).side() == 16);
  CHECK(same_bits(draw(&autoencoder, {9}), pictures.slice(1, 2)));
  const Tensor latents = draw(nullptr, {4}), last = empty({1, 8, 8, 4}, DType::kFloat32);
  for (std::int64_t i = 0; i < latents.numel(); ++i)
    last.data<float>()[i % 64 * 4 + i / 64] = latents.data<float>()[i] / 0.18215F;
  const Tensor decoded = autoencoder.decode(last);
  for (std::int64_t i = 0; i < decoded.numel(); ++i)
    CHECK(pictures.data<float>()[i % 3 * 256 + i / 3] == decoded.data<float>()[i]);

  sizes.latent_channels = 3;
  const Autoencoder other(sizes, DType::kFloat32);
  CHECK_THROWS_AS(PictureSampler(model, options, &other), ValueError);
}
