// The host memory for saving a run on a GPU: blocks, whatever the sizes of model and tensors.

#include <catch2/catch.hpp>

#include "core/allocator.h"
#include "core/random.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/training_run.h"
#include "tests/support/temporary_folder.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/io/file_ops.h"
#include "train/trainer/run/trainer.h"
#include "train/weights/checkpoint/checkpoint.h"
#include "train/weights/load_weights.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr auto kBlock = static_cast<std::int64_t>(kStreamBlockBytes);

std::int64_t parameter_bytes(const Module& model) {
  std::int64_t bytes = 0;
  for (const NamedParameter& p : model.parameters())
    bytes += static_cast<std::int64_t>(p.variable.value().bytes());
  return bytes;
}

/// Tensors of every kind that a checkpoint has: larger than a block and no multiple of it, small, empty.
std::vector<NamedTensor> tensors_on(Device device) {
  std::vector<NamedTensor> tensors;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64}) {
    for (const Shape& shape : {Shape{3, 700'001}, Shape{5}, Shape{}, Shape{0, 4}}) {
      const Tensor values = empty(shape, DType::kFloat32);
      fill_normal(values, {1, 1}, 0, 100);
      const std::string name = std::string(dtype_name(dtype)) + to_string(shape);
      tensors.push_back({name, values.to(dtype).to(device)});
    }
  }
  return tensors;
}

CheckpointContents contents_on(Device device) {
  return {.step = 3,
          .metric = {},
          .model = tensors_on(device),
          .optimizer = tensors_on(device),
          .trainer_json = "{}",
          .config_yaml = ""};
}

}  // namespace

TEST_CASE("sim: a run on a GPU is saved block by block") {
  RunConfig config = small_run();
  model_of(config).layers = 1;
  model_of(config).hidden = 512;
  model_of(config).intermediate = 4096;
  config.train.steps = 0;  // it begins, is saved, and ends
  const TemporaryFolder folder;
  config.output.dir = folder.path();
  const std::unique_ptr<Task> task = synthetic_task(config);
  CheckpointStore store(folder.path(), {}, [](const std::string& warning) { FAIL(warning); });
  RunFolder run_folder;
  run_folder.open(folder.path());
  const StopSignal stop;
  const RunParts run = {config, "", *task, run_folder, &store, stop, std::make_shared<Console>(-1)};
  Trainer trainer(run, nullptr);
  REQUIRE(parameter_bytes(task->model()) > 7 * kBlock);

  CpuAllocator& host = CpuAllocator::instance();
  host.reset_peaks();
  const std::int64_t before = host.stats().total.current_bytes;
  const std::size_t pinned = sim::DeviceMemory::instance().pinned_bytes();
  CHECK(trainer.run().finished);
  CHECK(host.stats().total.peak_bytes - before < 3 * kBlock);
  CHECK(sim::DeviceMemory::instance().pinned_bytes() - pinned <= 2 * kStreamBlockBytes);

  const StoredCheckpoint saved(store.list().back().folder);
  const std::vector<NamedParameter> parameters = task->model().parameters();
  std::vector<NamedTensor> loaded;
  for (const NamedParameter& p : parameters)
    loaded.push_back({p.name, empty(p.variable.shape(), p.variable.dtype())});
  load_exactly("saved", saved.model(), loaded);
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    INFO(loaded[i].name);
    CHECK(same_bits({loaded[i].tensor}, {parameters[i].variable.value().to(kCpu)}));
  }
}

TEST_CASE("sim: a checkpoint has the same bytes from a GPU as from the host") {
  const TemporaryFolder from_host, from_gpu;
  write_checkpoint_files(contents_on(kCpu), from_host.path());
  write_checkpoint_files(contents_on(small_run().device), from_gpu.path());
  for (const std::filesystem::path& file : list_directory(from_host.path())) {
    INFO(file.filename());
    CHECK(read_file(from_gpu.path() / file.filename()) == read_file(file));
  }
}
