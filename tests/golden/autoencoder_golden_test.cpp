#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "tests/support/message_of.h"
#include "tests/support/same_bits.h"
#include "tests/support/temporary_folder.h"
#include "train/base/formats/safetensors.h"
#include "train/families/diffusion/load_autoencoder.h"

using namespace moh;
using namespace moh::test;

namespace {

namespace fs = std::filesystem;

fs::path golden_autoencoder() {
  return fs::path(MOH_SOURCE_DIR) / "tests/golden/autoencoder";
}

void check_close(const Tensor& found, const Tensor& expected, double error) {
  REQUIRE(found.shape() == expected.shape());
  double largest = 0;
  for (std::int64_t i = 0; i < found.numel(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(found.data<float>()[i]) -
                                         static_cast<double>(expected.data<float>()[i])));
  CHECK(largest <= error);
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

/// The folder of the golden model with another config.json.
fs::path with_config(const TemporaryFolder& folder, const std::string& config) {
  fs::copy_file(golden_autoencoder() / "diffusion_pytorch_model.safetensors",
                folder / "diffusion_pytorch_model.safetensors", fs::copy_options::overwrite_existing);
  std::ofstream(folder / "config.json", std::ios::binary) << config;
  return folder.path();
}

}  // namespace

TEST_CASE("autoencoder: encodes and decodes as diffusers does") {
  const auto model = load_autoencoder(golden_autoencoder(), DType::kFloat32).model;
  const SafetensorsFile expected(golden_autoencoder() / "expected.safetensors");
  const LatentDistribution latents = model->encode(expected.tensor("images"));
  check_close(latents.mean, expected.tensor("mean"), 2e-5);
  check_close(latents.deviation, expected.tensor("deviation"), 2e-5);
  check_close(model->decode(expected.tensor("latents")), expected.tensor("decoded"), 5e-5);
  CHECK(model->config().scaling_factor == 0.18215);
}

TEST_CASE("autoencoder: bits do not depend on the batch and the number of threads") {
  const auto model = load_autoencoder(golden_autoencoder(), DType::kFloat32).model;
  const SafetensorsFile expected(golden_autoencoder() / "expected.safetensors");
  const Tensor images = expected.tensor("images"), latents = expected.tensor("latents");
  const int before = num_threads();
  set_num_threads(1);
  const LatentDistribution one = model->encode(images);
  const Tensor decoded = model->decode(latents);
  set_num_threads(3);
  CHECK(same_bits(model->encode(images).mean, one.mean));
  CHECK(same_bits(model->encode(images.slice(1, 2)).deviation, one.deviation.slice(1, 2)));
  CHECK(same_bits(model->decode(latents.slice(1, 2)), decoded.slice(1, 2)));
  set_num_threads(before);
}

TEST_CASE("autoencoder: the earlier names of attention's weights are read, too") {
  const TemporaryFolder folder;
  const SafetensorsFile file(golden_autoencoder() / "diffusion_pytorch_model.safetensors");
  std::vector<NamedTensor> tensors;
  for (const WeightInfo& info : file.tensors()) {
    std::string name = info.name;
    for (const auto& [now, earlier] :
         {std::pair(".to_q.", ".query."), std::pair(".to_k.", ".key."), std::pair(".to_v.", ".value."),
          std::pair(".to_out.0.", ".proj_attn.")}) {
      if (name.find(now) != std::string::npos) name = replaced(name, now, earlier);
    }
    tensors.push_back({name, file.tensor(info)});
  }
  with_config(folder, text_of(golden_autoencoder() / "config.json"));
  save_safetensors(folder / "diffusion_pytorch_model.safetensors", tensors);
  const Tensor latents = SafetensorsFile(golden_autoencoder() / "expected.safetensors").tensor("latents");
  CHECK(same_bits(load_autoencoder(folder.path(), DType::kFloat32).model->decode(latents),
                  load_autoencoder(golden_autoencoder(), DType::kFloat32).model->decode(latents)));
}

TEST_CASE("autoencoder: one of another kind, and damaged files, are refused by name") {
  const std::string config = text_of(golden_autoencoder() / "config.json");
  const auto unsupported = [&](const std::string& from, const std::string& to, const std::string& why) {
    const TemporaryFolder folder;
    with_config(folder, replaced(config, from, to));
    const std::string message =
        message_of<ConfigError>([&] { load_autoencoder(folder.path(), DType::kFloat32); });
    INFO(message);
    CHECK(message.find(why) != std::string::npos);
  };
  unsupported("\"AutoencoderKL\"", "\"AutoencoderDC\"",
              "_class_name: expected AutoencoderKL, found AutoencoderDC");
  unsupported("\"silu\"", "\"gelu\"", "act_fn");
  unsupported("\"UpDecoderBlock2D\"", "\"AttnUpDecoderBlock2D\"", "up_block_types");
  unsupported("\"shift_factor\": null", "\"shift_factor\": 0.1", "shift_factor");

  const TemporaryFolder folder;
  with_config(folder, replaced(config, "\"latent_channels\": 4", "\"latent_channels\": 8"));
  CHECK(message_of<CheckpointError>([&] {
          load_autoencoder(folder.path(), DType::kFloat32);
        }).find("decoder.conv_in.weight") != std::string::npos);
  with_config(folder, config);
  const fs::path weights = folder / "diffusion_pytorch_model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 8);
  CHECK_THROWS_AS(load_autoencoder(folder.path(), DType::kFloat32), CheckpointError);
  fs::remove(weights);
  CHECK_THROWS_AS(load_autoencoder(folder.path(), DType::kFloat32), CheckpointError);
}

TEST_CASE("autoencoder: images of other sizes are refused") {
  const auto model = load_autoencoder(golden_autoencoder(), DType::kFloat32).model;
  CHECK_THROWS_WITH(model->encode(zeros({1, 10, 8, 3}, DType::kFloat32)), Catch::Contains("multiples of 4"));
  CHECK_THROWS_AS(model->encode(zeros({1, 8, 8, 4}, DType::kFloat32)), ShapeError);
  CHECK_THROWS_AS(model->decode(zeros({1, 8, 8, 3}, DType::kFloat32)), ShapeError);
}
