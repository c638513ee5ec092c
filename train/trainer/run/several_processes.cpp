#include "train/trainer/run/several_processes.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "core/cuda/backend.h"
#include "core/cuda/queue.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/processors.h"
#include "train/base/log/logging.h"
#include "train/comm/launcher.h"
#include "train/comm/process_gpus.h"
#include "train/trainer/run/run_facts.h"

namespace moh {

namespace {

/// Threads for one of the processes, where nothing says how many: its part of the processors that it shares.
std::int64_t threads_of(const RunConfig& config, const Communicator& processes) {
  const int sharing = processes.sharing_processors();
  const bool said = config.threads > 0 || !environment_variable("OMP_NUM_THREADS").empty();
  return said || sharing == 1 ? config.threads : std::max(1, usable_processors() / sharing);
}

}  // namespace

void begin_together(const RunConfig& config, Communicator& processes, const SharedFacts& options) {
  set_num_threads(threads_of(config, processes));
  if (processes.alone()) return;
  log_info("comm: " + processes.description() + ", " + std::to_string(num_threads()) + " threads each");
  SharedFacts facts = program_facts(config);
  std::ranges::copy(config_facts(config), std::back_inserter(facts));
  std::ranges::copy(options, std::back_inserter(facts));
  require_same(facts, processes);
}

void require_same(const SharedFacts& facts, Communicator& processes) {
  for (const std::string& note : require_same_facts(facts, processes))
    log_warning(note + "; results may differ in rounding from those of equal machines");
}

void require_same_model(const LoadedModel& loaded, Communicator& processes) {
  if (processes.alone()) return;
  SharedFacts facts = device_facts(loaded.config);
  facts.push_back(weights_fact("--checkpoint", loaded.path));
  require_same(facts, processes);
}

std::unique_ptr<DeviceCollectives> open_gpu_collectives(const RunConfig& config, Communicator& processes) {
  if (processes.alone() || config.device == kCpu) return nullptr;
  if (config.comm.backend == CommBackend::kHost && config.cuda_graph) {
    throw ConfigError(error_message("cuda_graph", "comm.backend: host", "false", "true",
                                    "collectives through host memory cannot be captured"));
  }
  std::unique_ptr<DeviceCollectives> opened =
      open_device_collectives(processes, config.comm.backend, config.device, config.comm.timeout);
  log_info("comm: between the GPUs: " + opened->description());
  return opened;
}

void share_values(const std::vector<Tensor>& tensors, const RunConfig& config, Communicator& processes) {
  if (processes.alone()) return;
  if (config.device == kCpu) {
    for (const Tensor& tensor : tensors) processes.broadcast(tensor);
    return;
  }
  using cuda::Queue;
  cuda::wait_for(Queue::kCommunication, Queue::kCompute);
  for (const Tensor& tensor : tensors) processes.on_device().broadcast(tensor);
  cuda::wait_for(Queue::kCompute, Queue::kCommunication);
  cuda::synchronize();
}

std::shared_ptr<const TaskData> open_data_in_turn(const RunConfig& config, const Family& family, DataUse use,
                                                  Communicator& processes) {
  std::shared_ptr<const TaskData> data;
  const bool first = processes.local_rank() == 0;
  if (first) data = family.open_data(config, use);
  processes.barrier();
  if (!first) data = family.open_data(config, use);
  if (data == nullptr) return data;  // a family that makes its samples has none to open
  SharedFacts facts = data_facts(data->contents);
  std::ranges::copy(data_facts(data->shared_only), std::back_inserter(facts));
  require_same(facts, processes);
  return data;
}

}  // namespace moh
