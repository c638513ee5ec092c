#include "train/trainer/run/start_model.h"

#include <optional>
#include <string>

#include "core/cuda/queue.h"
#include "models/late_parameters.h"
#include "models/llm/lora.h"
#include "train/base/log/logging.h"
#include "train/heads/init/initialise_model.h"
#include "train/trainer/run/replicas.h"
#include "train/trainer/run/run_facts.h"
#include "train/trainer/run/several_processes.h"
#include "train/trainer/task/load_model.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

StartedModel resumed_model(const RunConfig& run, const Family& family, const StoredCheckpoint& checkpoint,
                           Communicator& processes) {
  const std::string where = "checkpoint " + checkpoint_folder_name(checkpoint.step());
  require_exactly(where, checkpoint.model(), expected_tensors(family, *run.family, dtype_of(run.precision)));
  StartedModel started = new_model(run, family, processes);
  load_exactly(where, checkpoint.model(), tensors_of(started.model->parameters()));
  return started;
}

/// Before shared heads and routers are measured on the weights of init.from.
void require_same_source(const RunConfig& run, Communicator& processes) {
  if (processes.alone()) return;
  require_same({weights_fact("init.from", run.init.from, run.init.part)}, processes);
}

}  // namespace

StartedModel new_model(const RunConfig& run, const Family& family, Communicator& processes) {
  StartedModel started;
  if (!shards_parameters(run, processes)) {
    std::optional<cuda::PersistentMemoryScope> persistent;
    if (run.device != kCpu && run.comm.zero > 0) persistent.emplace();
    started.model = make_initialised_model(family, run);
    return started;
  }
  {
    const LateParameters late;
    started.model = family.make_model(*run.family, placement_of(run));
  }
  started.sharded = shard_parameters(*started.model, run, processes);
  started.model->initialise(run.random_seed());
  return started;
}

StartedModel start_model(RunConfig& run, const Family& family, const std::shared_ptr<const TaskData>& data,
                         const StoredCheckpoint* resume_from, const RunHost& host) {
  if (resume_from != nullptr) return resumed_model(run, family, *resume_from, host.processes);
  if (run.init.from.empty()) {
    if (const LoraConfig* lora = run.family->lora(); lora != nullptr && lora->used())
      log_warning("model.lora: the weights beside the adapters stay random: init.from names no checkpoint");
    return new_model(run, family, host.processes);
  }
  require_same_source(run, host.processes);
  const StoredModel source = open_source(run, host.families);
  const std::unique_ptr<Calibration> calibration = family.make_calibration(run, data);
  settle_shared_heads(run, family, source, *calibration);
  StartedModel started = new_model(run, family, host.processes);
  initialise_from_source(*started.model, source, run, family, *calibration);
  return started;
}

void add_teacher(Task& task, const RunConfig& run, const Family& family, const Families& families) {
  if (!has_own_teacher(run)) return;
  const StoredModel source = open_source(run, families);
  log_info("init.distill: the teacher is " + source.weights().path().string());
  task.set_teacher(load_teacher(source, run, family), content_hash(source.weights(), [](std::uint64_t) {}));
}

}  // namespace moh
