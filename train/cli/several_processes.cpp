#include "train/cli/several_processes.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <utility>

#include "core/cpu_isa.h"
#include "core/cuda/backend.h"
#include "core/cuda/queue.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/processors.h"
#include "train/cli/commands.h"
#include "train/comm/launcher.h"
#include "train/comm/open_communicator.h"
#include "train/comm/open_device_collectives.h"
#include "train/config/load_run_config.h"
#include "train/io/error_words.h"
#include "train/log/logging.h"

namespace moh::cli {

namespace {

/// Threads for one of the processes, where nothing says how many: its part of the processors that it shares.
std::int64_t threads_of(const RunConfig& config, const Communicator& processes) {
  const int sharing = processes.sharing_processors();
  const bool said = config.threads > 0 || !environment_variable("OMP_NUM_THREADS").empty();
  return said || sharing == 1 ? config.threads : std::max(1, usable_processors() / sharing);
}

/// The first line in which two texts differ, of each.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines_a(a), lines_b(b);
  std::string line_a, line_b;
  const auto next = [](std::istringstream& lines, std::string& line) {
    line.clear();
    return static_cast<bool>(std::getline(lines, line));
  };
  while (next(lines_a, line_a) | next(lines_b, line_b)) {
    if (line_a != line_b) break;
  }
  const auto trimmed = [](const std::string& line) {
    const auto begin = line.find_first_not_of(' ');
    return "'" + (begin == std::string::npos ? "" : line.substr(begin)) + "'";
  };
  return {trimmed(line_a), trimmed(line_b)};
}

/// Of an error in one of several processes: the others end with its exit code, and the first one prints it.
/// It prints its own, and another one prints what the first cannot know.
int end_together(const std::exception& error, Communicator& processes) {
  const int code = exit_code_of(error);
  const std::string words = error_words(error);
  const bool told = processes.tell_failure(code, words);
  log_error(words);
  if (!processes.leads() && !told)
    std::fprintf(stderr, "rank %d: error: %s\n", processes.rank(), words.c_str());
  processes.leave_failed(code);
  return code;
}

}  // namespace

int in_processes(const std::function<int(Communicator&)>& command) {
  const std::unique_ptr<Communicator> group = open_communicator();
  if (!group) return command(one_process());
  try {
    group->set_deadline(0);  // texts may take long to become tokens
    const int own = command(*group);
    group->set_deadline(0);  // as may what one of them does at the end
    const auto code = static_cast<int>(group->max(group->leads() ? own : 0));
    group->leave();
    return code;
  } catch (const std::exception& error) {
    return end_together(error, *group);
  }
}

std::shared_ptr<Console> console_of(const Communicator& processes, int to) {
  constexpr int kNowhere = -1;
  return std::make_shared<Console>(processes.leads() ? to : kNowhere);
}

void begin_together(const RunConfig& config, Communicator& processes) {
  set_num_threads(threads_of(config, processes));
  if (processes.alone()) return;
  log_info("comm: " + processes.description() + ", " + std::to_string(num_threads()) + " threads each");
  require_same(config, processes);
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

void require_same(const RunConfig& config, Communicator& processes) {
  const auto require = [&](const char* what, const std::string& own, const char* fix) {
    const std::string first = processes.text_of_leader(own);
    if (processes.max(own == first ? 0 : 1) == 0) return;
    if (own == first) processes.barrier();  // throws their error
    const auto [expected, found] = first_difference(first, own);
    throw ConfigError(error_message("comm", what, expected + ", as rank 0 has", found, fix));
  };
  require("instruction set", std::string(cpu_isa_name(cpu_isa())),
          "set MOH_CPU_ISA to one that all machines have: results would depend on the machine");
  RunConfig of_all = with_absolute_paths(config);
  of_all.device.index = 0;  // each may have taken its own
  require("configuration", print_resolved(of_all), "start all processes alike");
}

std::shared_ptr<const TaskData> open_data_in_turn(const RunConfig& config, const Family& family, DataUse use,
                                                  Communicator& processes) {
  std::shared_ptr<const TaskData> data;
  const bool first = processes.local_rank() == 0;
  if (first) data = family.open_data(config, use);
  processes.barrier();
  return first ? data : family.open_data(config, use);
}

}  // namespace moh::cli
