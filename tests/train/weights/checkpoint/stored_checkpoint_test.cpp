#include "train/weights/checkpoint/stored_checkpoint.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/allocator.h"
#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"
#include "train/base/formats/element_blocks.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

namespace fs = std::filesystem;
using Catch::Contains;

const std::string optimizer_shard = "optimizer-00000-of-00001.safetensors";

NamedTensor filled(const std::string& name, const Shape& shape, double value, DType dtype = DType::kFloat32) {
  return {name, full(shape, value, dtype)};
}

bool is_filled_with(const NamedTensor& named, float value) {
  return std::ranges::all_of(named.tensor.span<float>(), [&](float element) { return element == value; });
}

/// A checkpoint whose model is larger than a block, and no multiple of it.
struct Large {
  static constexpr std::int64_t kElements = (5 * kStreamBlockBytes / 2 + 12) / sizeof(float);

  Large() {
    CheckpointContents contents = sample_checkpoint(3);
    const Tensor large = empty({kElements}, DType::kFloat32);
    for (std::int64_t i = 0; i < kElements; ++i) large.data<float>()[i] = static_cast<float>(i);
    contents.model = {{"large", large}};
    folder = StoreUnderTest(run.path()).store.save(contents);
  }

  TemporaryFolder run;
  fs::path folder;
};

}  // namespace

TEST_CASE("checkpoint: stored: tensors are loaded where they are wanted and held nowhere else") {
  const Large large;
  const std::vector<NamedTensor> to = {filled("large", {Large::kElements}, -1)};
  CpuAllocator::instance().reset_peaks();
  const std::int64_t before = CpuAllocator::instance().stats().total.current_bytes;
  const StoredCheckpoint checkpoint(large.folder);
  load_exactly("model", checkpoint.model(), to);
  CHECK(CpuAllocator::instance().stats().total.peak_bytes == before);
  const float* elements = to[0].tensor.data<float>();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < Large::kElements; ++i) wrong += elements[i] == static_cast<float>(i) ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("checkpoint: stored: a state of another model is refused before anything changes") {
  const TemporaryFolder run;
  CheckpointContents contents = sample_checkpoint(1);
  contents.optimizer = {filled("exp_avg.p", {2, 2}, 1), filled("exp_avg_sq.p", {2, 3}, 1),
                        filled("exp_avg.q", {2, 2}, 1)};
  const StoredCheckpoint checkpoint(StoreUnderTest(run.path()).store.save(contents));
  const std::vector<NamedTensor> to = {filled("exp_avg.p", {2, 2}, 7), filled("exp_avg_sq.p", {2, 2}, 7),
                                       filled("master.p", {2, 2}, 7)};
  CHECK(message_of<CheckpointError>([&] { load_exactly("optimizer state", checkpoint.optimizer(), to); }) ==
        "optimizer state: 3 tensors differ from the model's:\n"
        "  exp_avg_sq.p: expected [2, 2] float32, found [2, 3] float32\n"
        "  master.p: expected [2, 2] float32, found no tensor of this name\n"
        "  exp_avg.q: expected no tensor of this name, found [2, 2] float32");
  for (const NamedTensor& named : to) CHECK(is_filled_with(named, 7));
}

TEST_CASE("checkpoint: stored: damage is found before anything changes") {
  const Large large;
  std::string bytes = read_file(large.folder / "model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(large.folder / "model.safetensors", bytes);
  const std::vector<NamedTensor> to = {filled("large", {Large::kElements}, 7)};
  const StoredCheckpoint checkpoint(large.folder);
  CHECK_THAT(
      message_of<CheckpointError>([&] { load_exactly("model", checkpoint.model(), to); }),
      Contains("model.safetensors: large: expected checksum ") && Contains("the checkpoint is damaged"));
  CHECK(is_filled_with(to[0], 7));
}

TEST_CASE("checkpoint: stored: a file that changes after it was verified is noticed") {
  const TemporaryFolder run;
  CheckpointContents contents = sample_checkpoint(1);
  const fs::path folder = StoreUnderTest(run.path()).store.save(contents);
  const StoredCheckpoint checkpoint(folder);
  checkpoint.verify();
  std::string bytes = read_file(folder / optimizer_shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(folder / optimizer_shard, bytes);
  CHECK_THAT(message_of<CheckpointError>(
                 [&] { load_exactly("optimizer state", checkpoint.optimizer(), contents.optimizer); }),
             Contains(optimizer_shard + ": ") && Contains("expected checksum ") &&
                 Contains("the checkpoint is damaged"));
  CHECK_NOTHROW(load_exactly("model", checkpoint.model(), contents.model));
}

TEST_CASE("checkpoint: stored: a renamed step folder and changed texts are refused at once") {
  const TemporaryFolder run;
  const fs::path folder = StoreUnderTest(run.path()).store.save(sample_checkpoint(1201));
  const fs::path renamed = folder.parent_path() / "step_00001300";
  fs::rename(folder, renamed);
  CHECK_THAT(message_of<CheckpointError>([&] { StoredCheckpoint{renamed}; }),
             Contains("manifest.json: step: expected 1300, found 1201; the folder was renamed"));
  CHECK_THAT(message_of<CheckpointError>([&] { StoredCheckpoint(renamed, LoadScope::kModelOnly); }),
             Contains("was renamed"));
  fs::rename(renamed, folder);
  std::string text = read_file(folder / "trainer.json");
  text.back() = '?';
  write_file(folder / "trainer.json", text);
  CHECK_THAT(message_of<CheckpointError>([&] { StoredCheckpoint{folder}; }),
             Contains("trainer.json: expected checksum "));
}

}  // namespace moh
