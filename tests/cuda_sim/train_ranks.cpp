// A rank of several that train on simulated GPUs, for train_ranks_test.py, or the one GPU that they are
// compared with. Started as torchrun would, it trains as its arguments say, maybe with a fault, and prints a
// digest of losses, weights and moments, or why it fails.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cuda/backend.h"
#include "core/error.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/stream.h"
#include "tests/cuda_sim/training_run.h"
#include "tests/support/language_runs.h"
#include "train/comm/comm_error.h"
#include "train/comm/launcher.h"
#include "train/comm/process_gpus.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr int kCapturedIn = TrainStep::kRehearsals, kReplayedIn = 5;  // faults are of these steps
constexpr double kDeadlineSeconds = 20;

struct Arguments {
  std::string timing;  ///< "at_once", "late", "ahead"
  bool graph = false;
  int steps = 20;
  std::int64_t micro_batches = 2;  ///< of the step
  std::string backend;             ///< "nccl", "host"
  /// The fault of rank 1. "order": two buckets of different sizes are swapped; "swap": two of one size;
  /// "count": an element is missing; "abort": the communicator is used after its end. "none".
  std::string fault;
  /// "zero1", "zero2", "zero3", "unclipped", "fused", "bfloat16", "qk_norm", "global".
  std::vector<std::string> settings;
  bool has(std::string_view setting) const { return std::ranges::find(settings, setting) != settings.end(); }
  std::int64_t zero() const { return has("zero3") ? 3 : has("zero2") ? 2 : has("zero1") ? 1 : 0; }
};

/// Hands on the calls, with the fault.
class Faulty final : public DeviceCollectives {
 public:
  Faulty(DeviceCollectives& right, Communicator& processes, std::string fault)
      : right_(right), processes_(processes), fault_(std::move(fault)) {
    processes_.set_device(this);
  }
  ~Faulty() override { processes_.set_device(&right_); }

  void begin_step(int step) {
    seeds_ = fault_ != "abort" && step == kCapturedIn && processes_.rank() == 1;
    if (fault_ == "abort" && step == kReplayedIn && processes_.rank() == 1) right_.abort();
  }

  std::string description() const override { return right_.description(); }
  bool capturable() const override { return right_.capturable(); }
  void barrier() override { right_.barrier(); }
  void check() override { right_.check(); }
  void abort() noexcept override { right_.abort(); }
  void leave() override { right_.leave(); }

 protected:
  void do_all_reduce(const Tensor& values, ReduceOp op, DType wire) override {
    const bool swaps = seeds_ && !swapped_ && (fault_ == "order" || fault_ == "swap");
    const bool is_short = seeds_ && fault_ == "count";
    if (!swaps) return right_.all_reduce(is_short ? values.slice(0, values.numel() - 1) : values, op, wire);
    const Tensor before = std::exchange(held_, values);
    if (!before.defined()) return;
    if ((before.numel() == values.numel()) == (fault_ == "swap")) {
      right_.all_reduce(std::exchange(held_, {}), op, wire);
      swapped_ = true;
    }
    right_.all_reduce(before, op, wire);
  }
  void do_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) override {
    right_.reduce_scatter(rows, part, op, wire);
  }
  void do_all_gather(const Tensor& part, const Tensor& rows) override {
    if (seeds_ && !swapped_ && fault_ != "count") throw ValueError("there are no two buckets to swap");
    right_.all_gather(part, rows);
  }
  void do_broadcast(const Tensor& values, int root) override { right_.broadcast(values, root); }

 private:
  DeviceCollectives& right_;
  Communicator& processes_;
  std::string fault_;
  bool seeds_ = false, swapped_ = false;
  Tensor held_;  // the bucket before the next call's
};

sim::Timing timing_of(const std::string& name) {
  if (name == "late") return sim::Timing::kLate;
  return name == "ahead" ? sim::Timing::kAhead : sim::Timing::kAtOnce;
}

/// FNV-1a.
std::uint64_t mixed(std::uint64_t digest, const void* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    digest = (digest ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3U;
  return digest;
}

RunConfig config_of(const Arguments& arguments, Device device) {
  RunConfig config = small_run(device);
  config.train.accumulate = arguments.micro_batches;
  if (arguments.backend == "nccl") config.comm.bucket_mib = 0;  // a bucket for each parameter
  config.cuda_graph = arguments.graph;
  config.comm.zero = arguments.zero();
  if (config.comm.zero > 0) config.comm.bucket_mib = 0;
  if (arguments.has("unclipped")) config.optim.adamw.clip_grad_norm = 0;
  config.optim.adamw.fused_update = arguments.has("fused");
  if (arguments.has("bfloat16")) config.precision = Precision::kBFloat16;
  if (arguments.has("qk_norm")) model_of(config).qk_norm = true;  // two parameters of one size in succession
  if (arguments.has("global")) config.family->moh()->balance_scope = BalanceScope::kGlobal;
  return config;
}

std::uint64_t train(TrainingRun& run, const Arguments& arguments, Faulty* faulty) {
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (int step = 0; step < arguments.steps; ++step) {
    if (faulty != nullptr) faulty->begin_step(step);
    const StepReport report = run.step();
    digest = mixed(digest, &report.loss, sizeof report.loss);
  }
  if (arguments.graph && !run.captured()) throw ValueError("the step was not captured");
  run.complete_parameters();
  const bool divided = arguments.zero() > 0 || arguments.has("unclipped");  // no rank has all moments
  for (const Tensor& tensor : divided ? run.values() : run.state())
    digest = mixed(digest, tensor.raw(), tensor.bytes());
  return digest;
}

/// As train/trainer/run/start_run.cpp.
std::uint64_t train_together(const Arguments& arguments, Device device, Communicator& processes) {
  const CommBackend backend = arguments.backend == "host" ? CommBackend::kHost : CommBackend::kNccl;
  const std::unique_ptr<DeviceCollectives> opened =
      open_device_collectives(processes, backend, device, kDeadlineSeconds);
  std::optional<Faulty> faulty;
  if (arguments.fault != "none") faulty.emplace(*opened, processes, arguments.fault);
  TrainingRun run(config_of(arguments, device), language_family(), processes);
  const AbortOnFailure guard(*opened, [&] { run.release_graphs(); });
  const std::uint64_t digest = train(run, arguments, faulty ? &*faulty : nullptr);
  cuda::synchronize();
  run.release_graphs();
  opened->leave();
  return digest;
}

void run_rank(const Arguments& arguments, Device device, Communicator& processes) {
  const sim::Streams::TimingScope timing(timing_of(arguments.timing));
  std::uint64_t digest = 0;
  if (processes.alone()) {
    TrainingRun run(config_of(arguments, device));
    digest = train(run, arguments, nullptr);
  } else {
    digest = train_together(arguments, device, processes);
  }
  std::printf("digest: %016llx\n", static_cast<unsigned long long>(digest));
}

/// As train/apps/cli/in_processes.cpp.
int end_of(const std::exception& error, int code, Communicator& processes) {
  processes.report_failure(code, error.what());
  std::printf("rank %d: %s\n", processes.rank(), error.what());
  std::fflush(stdout);
  processes.leave_failed(code);
  return code;
}

int run(const Arguments& arguments) {
  const std::unique_ptr<Communicator> group = open_communicator();
  Communicator& processes = group ? *group : one_process();
  try {
    const Device device = gpu_of_process(processes, CommBackend::kNccl);
    open_device(device);
    run_rank(arguments, device, processes);
    processes.leave();
    return 0;
  } catch (const PeerError& error) {
    return end_of(error, error.exit_code(), processes);
  } catch (const CommError& error) {
    return end_of(error, CommError::kExitCode, processes);
  } catch (const std::exception& error) {
    return end_of(error, 3, processes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr,
                 "usage: train_ranks TIMING graph|eager STEPS MICRO_BATCHES nccl|host FAULT SETTING...\n");
    return 2;
  }
  return run({argv[1],
              std::string(argv[2]) == "graph",
              std::stoi(argv[3]),
              std::stoll(argv[4]),
              argv[5],
              argv[6],
              {argv + 7, argv + argc}});
}
