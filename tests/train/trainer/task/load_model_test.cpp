#include "train/trainer/task/load_model.h"
#include "train/families/families.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/allocator.h"
#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "train/trainer/config/load_run_config.h"
#include "train/weights/checkpoint/checkpoint_store.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

namespace {

/// A run of a model of some 5 MB, with one checkpoint.
struct SavedRun {
  SavedRun() {
    const std::filesystem::path text = write_file(folder / "text.txt", "some text");
    const std::string yaml =
        write_file(folder / "run.yaml",
                   "output: {dir: run}\nmodel: {layers: 2, hidden: 128, intermediate: 512, "
                   "heads: 4, max_positions: 32}\ndata: {train: " +
                       text.string() + ", sequence_length: 32}\n");
    const RunConfig config = load_run_config(yaml, {}, families().configs());
    const std::unique_ptr<Model> model = make_initialised_model(families().of(config), config);
    CheckpointContents contents;
    for (const NamedParameter& p : model->parameters())
      contents.model.push_back({p.name, p.variable.value()});
    contents.config_yaml = print_resolved(config);
    contents.trainer_json = to_json(TrainState{});
    CheckpointStore(folder.path(), {}, [](const std::string&) {}).save(contents);
    for (const NamedTensor& named : contents.model) bytes += static_cast<std::int64_t>(named.tensor.bytes());
  }

  TemporaryFolder folder;
  std::int64_t bytes = 0;  // of the weights
};

}  // namespace

TEST_CASE("tasks: a model is held once while it is loaded") {
  const SavedRun run;
  REQUIRE(run.bytes > 2'000'000);
  CpuAllocator::instance().reset_peaks();
  const std::int64_t before = CpuAllocator::instance().stats().total.current_bytes;
  const LoadedModel loaded = load_model(run.folder.path(), families());
  constexpr std::int64_t kBeside = 256 << 10;  // tables of the model, and what rounds sizes up
  CHECK(CpuAllocator::instance().stats().total.peak_bytes - before < run.bytes + kBeside);
}

TEST_CASE("tasks: a checkpoint that does not fit the configuration beside it is refused, listing all of it") {
  const SavedRun run;
  CHECK_THAT(message_of<CheckpointError>(
                 [&] { load_model(run.folder.path(), families(), {"model.intermediate=256"}); }),
             Catch::StartsWith("checkpoint " + run.folder.path().string()) &&
                 Catch::Contains("6 of another shape") &&
                 Catch::Contains(
                     "model.layers.{0-1}.mlp.up_proj.weight (2): expected [256, 128], found [512, 128]"));
}

TEST_CASE("tasks: a model larger than its checkpoint is refused before it takes memory") {
  const SavedRun run;
  CpuAllocator::instance().reset_peaks();
  const std::int64_t before = CpuAllocator::instance().stats().total.current_bytes;
  CHECK_THROWS_AS(
      load_model(run.folder.path(), families(), {"model.intermediate=1048576", "model.layers=1024"}),
      CheckpointError);
  CHECK(CpuAllocator::instance().stats().total.peak_bytes - before < run.bytes);
}

TEST_CASE("tasks: weights of another precision are converted, with one rounding") {
  const SavedRun run;
  const LoadedModel saved = load_model(run.folder.path(), families());
  const LoadedModel rounded = load_model(run.folder.path(), families(), {"precision=bfloat16"});
  const auto expected = saved.model->parameters(), found = rounded.model->parameters();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    REQUIRE(found[i].variable.dtype() == DType::kBFloat16);
    const Tensor back = found[i].variable.value().to(DType::kFloat32);
    CHECK(std::ranges::equal(
        back.span<float>(),
        expected[i].variable.value().to(DType::kBFloat16).to(DType::kFloat32).span<float>()));
  }
}

}  // namespace moh
