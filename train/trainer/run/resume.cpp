#include "train/trainer/run/resume.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/formats/stored_dtype.h"
#include "train/trainer/optim/parameter_shards.h"
#include "train/weights/checkpoint/checkpoint.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

using Identity = std::vector<std::pair<std::string, std::string>>;

void check_identity(const std::string& where, const Identity& expected, const Identity& saved) {
  for (const auto& entry : expected) {
    const auto found = std::ranges::find(saved, entry.first, &Identity::value_type::first);
    if (found != saved.end() && found->second == entry.second) continue;
    throw CheckpointError(
        error_message(where, entry.first, entry.second, found == saved.end() ? "none" : found->second));
  }
}

std::int64_t elements_of(const WeightInfo& tensor) {
  return tensor.shape.numel();
}

void check_part(std::string_view where, std::span<const StoredTensors> from, const TensorPart& part) {
  const std::string dtype(safetensors_dtype_name(part.tensor.dtype()));
  std::int64_t elements = 0;
  for (const StoredTensors& file : from) {
    const WeightInfo* const tensor = file.find(part.name);
    if (tensor == nullptr) continue;
    elements += elements_of(*tensor);
    if (tensor->stored_dtype == dtype) continue;
    throw CheckpointError(error_message(where, part.name, dtype, std::string(tensor->stored_dtype)));
  }
  if (elements == part.whole) return;
  throw CheckpointError(error_message(where, part.name, std::to_string(part.whole) + " elements in all files",
                                      std::to_string(elements)));
}

/// Elements [begin, end) of a stored tensor, block by block.
void append_elements(TensorFiller& filler, const StoredTensors& file, const WeightInfo& tensor,
                     std::size_t element_bytes, std::int64_t begin, std::int64_t end) {
  const std::uint64_t first = static_cast<std::uint64_t>(begin) * element_bytes;
  stream_blocks(
      static_cast<std::uint64_t>(end - begin) * element_bytes,
      [&](std::uint64_t offset, std::span<std::byte> block) { file.read(tensor, first + offset, block); },
      [&](std::span<const std::byte> block) { filler.append(block); });
}

void load_part(std::span<const StoredTensors> from, const TensorPart& part) {
  TensorFiller filler(part.tensor);
  const std::int64_t end = part.begin + part.tensor.numel();
  std::int64_t place = 0;  // of the file's part in the whole tensor
  for (const StoredTensors& file : from) {
    const WeightInfo* const tensor = file.find(part.name);
    if (tensor == nullptr) continue;
    const std::int64_t next = place + elements_of(*tensor);
    const std::int64_t first = std::max(place, part.begin), last = std::min(next, end);
    if (first < last)
      append_elements(filler, file, *tensor, dtype_size(part.tensor.dtype()), first - place, last - place);
    place = next;
  }
}

/// Reads parts of tensors from a checkpoint whose files have each tensor whole, or as many parts of it, one
/// after the other in the order of the files: what any number of processes wrote, any number reads.
/// Everything is verified and compared before anything is changed. Tensors that no part is of are ignored.
void load_parts(std::string_view where, std::span<const StoredTensors> from, std::span<const TensorPart> to) {
  for (const StoredTensors& file : from) file.verify();
  for (const TensorPart& part : to) check_part(where, from, part);
  for (const TensorPart& part : to) load_part(from, part);
}

}  // namespace

TrainState first_state(std::int64_t seed, const Task& task, const StoredCheckpoint* resume_from) {
  TrainState state;
  if (resume_from != nullptr) {
    state = train_state_of(*resume_from);
    check_identity("checkpoint " + checkpoint_folder_name(resume_from->step()), task.identity(),
                   state.identity);
  }
  state.seed = seed;
  state.identity = task.identity();
  state.data = task.data_contents();
  return state;
}

void load_optimizer_state(const AdamW& optimizer, const StoredCheckpoint& checkpoint) {
  const std::vector<NamedTensor> wanted = optimizer.state();
  for (const NamedTensor& state : wanted) {
    if (!state.name.starts_with("exp_avg.") && !state.name.starts_with("exp_avg_sq.")) continue;
    const auto has = [&](const StoredTensors& file) { return file.find(state.name) != nullptr; };
    if (std::ranges::any_of(checkpoint.optimizer(), has)) continue;
    throw CheckpointError(error_message("checkpoint " + checkpoint_folder_name(checkpoint.step()),
                                        "optim.groups",
                                        "the optimiser's state of every parameter that is trained now",
                                        "none for " + state.name + ", whose parameter was frozen",
                                        "freeze what was frozen, or begin a new run with init.from"));
  }
  if (optimizer.shards()->divided() || checkpoint.optimizer().size() > 1)
    return load_parts("optimizer state", checkpoint.optimizer(), optimizer.state_parts());
  if (optimizer.frozen().empty()) return load_exactly("optimizer state", checkpoint.optimizer(), wanted);
  load_named("optimizer state", checkpoint.optimizer(), wanted);
}

void load_average(const WeightAverage& average, const AdamW& optimizer, const StoredCheckpoint& checkpoint) {
  if (checkpoint.average().empty()) {
    throw CheckpointError(error_message("checkpoint " + checkpoint_folder_name(checkpoint.step()), "",
                                        "the moving average of the weights (ema.decay)", "none",
                                        "resume with ema.decay=0, as the run began"));
  }
  load_parts("moving average", checkpoint.average(), optimizer.parts_of(average.trained()));
}

}  // namespace moh
