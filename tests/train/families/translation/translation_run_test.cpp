#include "train/families/translation/translation_run.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "models/model.h"
#include "tests/support/message_of.h"
#include "train/families/families.h"
#include "train/trainer/config/load_run_config.h"

using namespace moh;

namespace {

RunConfig read_config(const std::string& name, const std::vector<std::string>& overrides = {},
                      ConfigUse use = ConfigUse::kModel) {
  const std::filesystem::path path = std::filesystem::path(MOH_SOURCE_DIR) / "configs/translation" / name;
  return load_run_config(path.string(), overrides, families().configs(), use);
}

}  // namespace

TEST_CASE("translation run: every configuration of configs/translation is valid, and takes any preset") {
  const std::filesystem::path folder = std::filesystem::path(MOH_SOURCE_DIR) / "configs/translation";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    INFO(entry.path());
    CHECK(read_config(entry.path().filename()).schedule.kind == LrSchedule::Kind::kInverseSqrt);
  }
  for (const std::string& preset : TranslationRun().presets()) {
    INFO(preset);
    CHECK(translation_run(read_config("wmt14_en_de_base.yaml", {"model.preset=" + preset})).preset == preset);
  }
}

TEST_CASE("translation run: recipes have the heads that they say, and MoA's settings where they are known") {
  const auto active = [](const char* name) {
    return activated_heads(routing_of(translation_run(read_config(name)).model));
  };
  CHECK(active("wmt14_en_de_base.yaml") == 1);
  CHECK(active("wmt14_en_de_moh_75.yaml") == Approx(0.75));
  CHECK(active("small_moh_75.yaml") == Approx(0.75));
  CHECK(active("small_dense.yaml") == 1);
  const RunConfig moa = read_config("wmt14_en_de_moa.yaml");
  CHECK(translation_run(moa).model.kv_heads == 1);
  CHECK(translation_run(moa).model.moh.z_loss_weight == 0.001);
  CHECK(moa.schedule.peak == 7e-4);
  CHECK(moa.schedule.warmup_steps == 4000);
  CHECK(moa.train.accumulate == 32);
  CHECK(translation_run(moa).data.batch_tokens == 8192);
}

TEST_CASE("translation run: what does not fit is refused at its key") {
  const auto message = [](const std::vector<std::string>& overrides) {
    return message_of<ConfigError>([&] { read_config("quickstart.yaml", overrides, ConfigUse::kData); });
  };
  CHECK_THAT(message({"data.max_length=5000"}),
             Catch::Contains("data.max_length: expected at most model.max_positions (256), found 5000"));
  CHECK_THAT(message({"data.batch_tokens=100"}),
             Catch::Contains("data.max_length: expected at most data.batch_tokens (100), found"));
  CHECK_THAT(message({"data.max_ratio=0.5"}),
             Catch::Contains("data.max_ratio: expected 0, or 1 or more, found 0.5"));
  CHECK_THAT(message({"data.decoder_start=256"}),
             Catch::Contains("data.decoder_start: expected below model.vocab_size (256), found 256"));
  CHECK_THAT(message({"data.train=[a, b]", "data.train_targets=[c]"}),
             Catch::Contains("data.train_targets: expected a file for each of data.train, 2, found 1"));
  CHECK_THAT(
      message({"data.validation_targets=[c]"}),
      Catch::Contains("data.validation_targets: expected a file for each of data.validation, 0, found 1"));
  CHECK_THAT(message({"model.vocab_size=100"}),
             Catch::Contains("model.vocab_size: expected at least 256, the tokens of data.tokenizer: byte"));
  CHECK_THAT(message({"cuda_graph=true", "device=cuda"}),
             Catch::Contains("cuda_graph: expected false with task: translation, whose micro-batches have "
                             "lengths of their own, found true"));
  CHECK_THAT(message({"data.train=[]"}),
             Catch::Contains("data.train: expected sentence pairs to train on, found no path"));
  CHECK_THAT(message({"loss.label_smoothing=1"}), Catch::Contains("loss.label_smoothing: expected"));
}

TEST_CASE("translation run: an evaluation has a bound in training, and none when it is asked for") {
  const TranslationRun run = translation_run(read_config("quickstart.yaml"));
  CHECK(run.evaluation_settings("x.tsv")[0] == "data.validation=x.tsv");
  TranslationRun all = run;
  all.data.validation_fraction = 0;
  CHECK(all.evaluation_work().held_out == 0);
  all.data.validation_fraction = 0.1;
  all.evaluated.given = 1000;
  CHECK(all.evaluation_work().held_out == 1000);
}
