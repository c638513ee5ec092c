#include "train/families/images/image_weight_names.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "models/vision/resample.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "train/base/io/durable_file.h"
#include "train/families/families.h"
#include "train/families/images/image_run.h"
#include "train/trainer/task/load_model.h"
#include "train/weights/hf/config_json.h"
#include "train/weights/locate_model.h"

using namespace moh;

namespace {

/// A file of which nothing but the list is there.
class ListedWeights final : public WeightFile {
 public:
  explicit ListedWeights(std::vector<WeightInfo> tensors) { set_tensors(std::move(tensors)); }

  const std::filesystem::path& path() const override { return path_; }
  std::string format() const override { return "a list"; }
  void read(const WeightInfo&, std::uint64_t, std::span<std::byte>) const override {
    FAIL("nothing to read");
  }

 private:
  std::filesystem::path path_ = "list";
};

const ImageWeightNames known_names;

std::vector<WeightInfo> tensors_of_preset(const std::string& name, std::int64_t classes) {
  ImageRun run;
  run.begin_with_preset(name);
  run.model.classes = classes;
  return expected_tensors(families().of(run), run);
}

ImageModelConfig read_model(const std::string& json) {
  const TemporaryFolder folder;
  write_file_durably(folder.path() / "config.json", json);
  return image_run(*known_names.read_config(folder.path() / "config.json")).model;
}

std::string model_error(const std::string& json) {
  return message_of<ConfigError>([&] { read_model(json); });
}

}  // namespace

TEST_CASE("image weights: published models are known by their tensors, with any number of classes") {
  for (const std::string& name : image_presets()) {
    for (const std::int64_t classes : {1000, 10}) {
      INFO(name << " " << classes);
      const std::unique_ptr<FamilyConfig> found =
          known_names.published_model(ListedWeights(tensors_of_preset(name, classes)));
      REQUIRE(found != nullptr);
      CHECK(image_run(*found).preset == name);
      CHECK(image_run(*found).model.classes == classes);
    }
  }
  std::vector<WeightInfo> tensors = tensors_of_preset("moh_vit_small_75", 1000);
  // Tensors that the released code may keep beside the parameters, and some that it never has.
  tensors.push_back({"relative_pos_index1", "I64", {4}, 32});
  tensors.push_back({"block1.0.attn.padding_mask", "U8", {4}, 4});
  CHECK(known_names.published_model(ListedWeights(tensors)) != nullptr);
  tensors.push_back({"block1.0.attn.wg.weight", "F32", {4}, 16});
  CHECK(known_names.published_model(ListedWeights(tensors)) == nullptr);
  CHECK(known_names.published_model(ListedWeights({{"head.weight", "F32", {10, 8}, 320}})) == nullptr);
  CHECK(known_names.published_model(ListedWeights({})) == nullptr);
}

TEST_CASE("image weights: timm's config.json of a vision transformer") {
  const ImageModelConfig small = read_model(
      R"({"architecture": "deit_small_patch16_224", "num_classes": 1000, "num_features": 384,
          "pretrained_cfg": {"tag": "fb_in1k", "input_size": [3, 224, 224], "mean": [0.5, 0.5, 0.5]}})");
  CHECK(small.architecture == ImageArchitecture::kVit);
  CHECK(vit_of(small) == [] {
    VitConfig expected = vit_of(image_preset("deit_small"));
    expected.drop_path = 0;
    return expected;
  }());
  const ImageModelConfig large = read_model(
      R"({"architecture": "vit_large_patch32_384.orig", "num_classes": 21, "global_pool": "avg",
          "pretrained_cfg": {"input_size": [3, 384, 384]}, "model_args": {"depth": 3, "img_size": 64}})");
  CHECK(large.vit.hidden == 1024);
  CHECK(large.vit.layers == 3);
  CHECK(large.vit.patch_size == 32);
  CHECK(large.vit.pooling == VitPooling::kMean);
  CHECK(large.image_size == 64);
  CHECK(large.classes == 21);

  CHECK_THAT(model_error(R"({"architecture": "resnet50"})"),
             Catch::Contains("deit_small_patch16_224, found resnet50"));
  CHECK_THAT(model_error(R"({"architecture": "deit_small_distilled_patch16_224"})"),
             Catch::Contains("architecture"));
  CHECK_THAT(model_error(R"({"architecture": "vit_base_patch16_224", "model_args": {"qkv_bias": false}})"),
             Catch::Contains("model_args.qkv_bias"));
  CHECK_THAT(model_error(R"({"architecture": "vit_base_patch16_224", "global_pool": "map"})"),
             Catch::Contains("token or avg"));
  CHECK_THROWS_AS(read_model(R"({"architecture": "vit_base_patch16_224", "num_classes": 0})"),
                  CheckpointError);
  CHECK_THAT(model_error(R"({"architecture": "vit_base_patch0_224"})"), Catch::Contains("architecture"));
  // timm's ratio is a float.
  CHECK(read_model(R"({"architecture": "vit_base_patch16_224", "model_args": {"mlp_ratio": 3.0}})")
            .vit.mlp_ratio == 3);
  CHECK_THAT(model_error(R"({"architecture": "vit_base_patch16_224", "model_args": {"mlp_ratio": 2.5}})"),
             Catch::Contains("model_args.mlp_ratio: expected a whole number from 1 on, found 2.5"));
}

TEST_CASE("image weights: a vision transformer is described as timm does, and read back") {
  ImageRun run;
  run.begin_with_preset("deit_small");
  run.model.drop_path = 0;
  run.model.classes = 10;
  run.model.image_size = 64;
  run.model.vit.patch_size = 8;
  run.model.vit.layers = 3;
  run.model.vit.pooling = VitPooling::kMean;
  const TemporaryFolder folder;
  const ModelLocation source{folder.path() / "none.safetensors", {}, false};
  known_names.write_files(folder.path(), run, source, {});
  const auto config = folder.path() / "config.json";
  CHECK(known_names.recognises(ConfigJson(config)));
  CHECK(vit_of(image_run(*known_names.read_config(config)).model) == vit_of(run.model));
}

TEST_CASE("image weights: models that timm lacks are exported with their code, and read back") {
  ImageRun run;
  run.begin_with_preset("deit_small");
  run.model.vit.layers = 3;
  run.model.moh.router = routers::kLearned;
  run.model.moh.num_shared = run.model.moh.top_k = 2;
  ImageRun stages;
  stages.begin_with_preset("moh_vit_base_50");
  stages.model.recompute = RecomputeLevel::kLayer;
  stages.data.normalize.mean = {0.5, 0.25, 0.125};
  for (const ImageRun& each : {run, stages}) {
    const TemporaryFolder folder;
    const ModelLocation source{folder.path() / "none.safetensors", {}, false};
    const WeightInfo tensor{"head.weight", "F32", {1000, 384}, 0};
    known_names.write_files(folder.path(), each, source, {&tensor, 1});
    for (const char* name : {"modeling_moh_vit.py", "moh_attention.py", "transformers_moh_vit.py"})
      CHECK(std::filesystem::file_size(folder.path() / name) > 1000);
    const auto config = folder.path() / "config.json";
    REQUIRE(known_names.recognises(ConfigJson(config)));
    const auto read = known_names.read_config(config);
    CHECK(each.other_results(*read).empty());
    CHECK(image_run(*read).data.normalize.mean == each.data.normalize.mean);
  }
}

TEST_CASE("image weights: a config.json of moh_vit is checked as a run is") {
  const auto with_model = [](const std::string& model) {
    return R"({"model_type": "moh_vit", "model": )" + model + "}";
  };
  CHECK(read_model(with_model(R"({"architecture": "vit"})")).architecture == ImageArchitecture::kVit);
  CHECK_THAT(model_error(with_model(R"({"architecture": "vit", "heads": 4})")),
             Catch::Contains("model.heads"));
  CHECK_THAT(model_error(with_model(R"({"architecture": "vit", "vit": {"hidden": 383}})")),
             Catch::Contains("model.vit.heads"));
  CHECK_THAT(model_error(with_model(R"({"moh": {"router": "query_norm"}})")),
             Catch::Contains("model.moh.router"));
  CHECK_THROWS_WITH(read_model(with_model("7")), Catch::Contains("model: expected an object, found 7"));
}

TEST_CASE("image weights: position embeddings are resized, nothing else") {
  const Tensor weights = known_names.resizing("pos_embed", {1, 197, 8}, {1, 17, 8});
  REQUIRE(weights.shape() == Shape{17, 197});
  CHECK(weights.data<float>()[0] == 1.0F);
  const Tensor of_grid = bicubic_weights({14, 14}, {4, 4});
  for (std::int64_t t = 0; t < 16; ++t) {
    for (std::int64_t s = 0; s < 196; ++s)
      CHECK(weights.data<float>()[(t + 1) * 197 + s + 1] == of_grid.data<float>()[t * 196 + s]);
  }
  CHECK(known_names.resizing("pos_embed", {1, 196, 8}, {1, 16, 8}).shape() == Shape{16, 196});
  CHECK_FALSE(known_names.resizing("pos_embed", {1, 197, 8}, {1, 16, 8})
                  .defined());  // with and without a class token
  CHECK_FALSE(known_names.resizing("pos_embed", {1, 197, 8}, {1, 17, 9}).defined());
  CHECK_FALSE(known_names.resizing("cls_token", {1, 197, 8}, {1, 17, 8}).defined());
  ImageRun run;
  CHECK_FALSE(known_names.begins_anew("head.weight", run));
  run.new_head = true;
  CHECK(known_names.begins_anew("head.weight", run));
  CHECK(known_names.begins_anew("head.bias", run));
  CHECK_FALSE(known_names.begins_anew("norm.weight", run));
}
