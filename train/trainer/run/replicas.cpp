#include "train/trainer/run/replicas.h"

#include <utility>

#include "core/dry_run.h"
#include "core/error.h"
#include "train/comm/collective_memory.h"
#include "train/comm/device_collectives.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/run/gradient_buckets.h"
#include "train/trainer/run/parameter_values.h"
#include "train/trainer/run/sharded_gradients.h"
#include "train/trainer/run/sharded_parameters.h"

namespace moh {

namespace {

/// Null without optim.fused_update. It takes the values that parameters have now.
std::unique_ptr<FusedUpdate> make_fused_update(AdamW& optimizer) {
  if (!optimizer.options().fused_update) return nullptr;
  return std::make_unique<FusedUpdate>(optimizer);
}

/// A process that meets no others, and has all numbers.
class Alone : public Replicas {
 public:
  StepPart part() const override { return {}; }
  double waited_seconds() const override { return 0; }
  void check() override {}
  void compare_calls() override {}
  std::vector<StepSize> sizes_of_all(const StepSize& own) override { return {own}; }
  void prepare_loads() override {}
  void before_pass() override {}
  void run_pass(bool, FunctionRef<void()> pass) override { pass(); }
  void after_passes() override {}
  void after_update() override {}
  void complete_parameters() override {}
  void after_reading() override {}
  std::unique_ptr<WeightsScope> take_average(const Model& model, const WeightAverage& average) override {
    return std::make_unique<WeightsScope>(model.parameters(), average.state());
  }
  Tensor rows_of_all(const Tensor& own) override { return own.reshape({1, own.numel()}); }
  void sum(const Tensor&) override {}
};

/// The process of a run of one, which has all parameters and gradients.
class OneProcess final : public Alone {
 public:
  explicit OneProcess(AdamW& optimizer) : fused_(make_fused_update(optimizer)) {
    if (fused_) fused_->hook_parameters();
  }

  bool sums_gradients() const override { return false; }
  void begin_gradients() override {}
  void expect_backward(bool) override {}
  void finish_backward(bool) override {}
  FusedUpdate* fused_update() override { return fused_.get(); }

 private:
  std::unique_ptr<FusedUpdate> fused_;
};

std::vector<Variable> leaves_of(const Model& model) {
  std::vector<Variable> leaves;
  for (const NamedParameter& parameter : model.parameters()) leaves.push_back(parameter.variable);
  return leaves;
}

/// Sums that `fused` updates parameters by. `values`: null where they are whole, and nothing has to be said.
std::unique_ptr<GradientSums> make_fused_sums(const AdamW& optimizer, DType wire, Communicator& processes,
                                              FusedUpdate& fused, ParameterValues* values) {
  const std::shared_ptr<const ParameterShards>& shards = optimizer.shards();
  const auto update = [&fused, values, shards](std::size_t bucket, std::span<const Tensor> own) {
    if (values != nullptr) values->expect_update(bucket);
    const std::vector<std::size_t>& items = shards->buckets()[bucket].items;
    for (std::size_t k = 0; k < items.size(); ++k) fused.update(items[k], own[k]);
  };
  return std::make_unique<ShardedGradients>(processes, shards, optimizer.trained(), wire, update);
}

std::unique_ptr<GradientSums> make_gradient_sums(const Model& model, AdamW& optimizer, const CommConfig& comm,
                                                 Communicator& processes, FusedUpdate* fused,
                                                 ParameterValues* values) {
  const DType wire = dtype_of(comm.gradients);
  if (fused != nullptr) return make_fused_sums(optimizer, wire, processes, *fused, values);
  if (comm.zero < 2) {
    return std::make_unique<GradientBuckets>(
        processes, leaves_of(model),
        GradientBuckets::Options{comm.bucket_bytes(), wire,
                                 optimizer.shards()->divided() ? optimizer.shards().get() : nullptr});
  }
  auto sums = std::make_unique<ShardedGradients>(optimizer.shards(), optimizer.trained(), wire);
  optimizer.take_gradients_from(sums->sums());
  return sums;
}

std::shared_ptr<ParameterValues> parameter_values(const AdamW& optimizer, const RunConfig& config,
                                                  const std::shared_ptr<ShardedParameters>& sharded) {
  MOH_CHECK((sharded != nullptr) == (config.comm.zero == 3), "stage 3 has sharded parameters, no other has");
  if (sharded) return sharded;
  if (config.device == kCpu) return std::make_shared<WholeValues>(optimizer);
  return std::make_shared<WholeDeviceValues>(optimizer);
}

/// One of several processes in a dry run of its share alone: it takes the memory of its sums and values, and
/// adds nothing up.
class DryShare final : public Alone {
 public:
  DryShare(const Model& model, AdamW& optimizer, const RunConfig& config, Communicator& processes,
           const std::shared_ptr<ShardedParameters>& sharded)
      : parameters_(sharded),
        fused_(make_fused_update(optimizer)),
        gradients_(
            make_gradient_sums(model, optimizer, config.comm, processes, fused_.get(), parameters_.get())) {}

  void before_pass() override {
    if (parameters_) parameters_->before_pass();
  }
  void run_pass(bool is_first, FunctionRef<void()> pass) override {
    parameters_ ? parameters_->run_pass(is_first, pass) : pass();
  }
  void complete_parameters() override {
    if (parameters_) parameters_->complete();
  }
  void after_reading() override {
    if (parameters_) parameters_->after_reading();
  }
  std::unique_ptr<WeightsScope> take_average(const Model& model, const WeightAverage& average) override {
    if (parameters_) return parameters_->take_average(model, average);
    return Alone::take_average(model, average);
  }
  bool sums_gradients() const override { return true; }
  void begin_gradients() override { gradients_->begin_step(); }
  void expect_backward(bool is_last) override { gradients_->expect_pass(is_last); }
  void finish_backward(bool is_last) override { gradients_->finish_pass(is_last); }
  FusedUpdate* fused_update() override { return fused_.get(); }

 private:
  std::shared_ptr<ShardedParameters> parameters_;  // null where they are whole
  std::unique_ptr<FusedUpdate> fused_;
  std::unique_ptr<GradientSums> gradients_;
};

/// The part that host and device replicas have in common.
class SeveralProcesses : public Replicas {
 public:
  SeveralProcesses(const Model& model, AdamW& optimizer, const RunConfig& config, Communicator& processes,
                   const std::shared_ptr<ShardedParameters>& sharded)
      : processes_(processes),
        parameters_(parameter_values(optimizer, config, sharded)),
        fused_(make_fused_update(optimizer)),
        gradients_(
            make_gradient_sums(model, optimizer, config.comm, processes, fused_.get(), parameters_.get())) {}

  StepPart part() const override { return {processes_.rank(), processes_.size()}; }
  double waited_seconds() const override { return processes_.waited_seconds(); }
  std::vector<StepSize> sizes_of_all(const StepSize& own) override {
    const Tensor rows = empty({processes_.size(), 2}, DType::kInt64);
    processes_.all_gather(tensor_of<std::int64_t>({2}, {own.items, own.targets}), rows);
    std::vector<StepSize> sizes;
    for (std::int64_t r = 0; r < processes_.size(); ++r) {
      const auto row = rows.select(r).span<std::int64_t>();
      sizes.push_back({row[0], row[1]});
    }
    return sizes;
  }
  void prepare_loads() override { parameters_->prepare_loads(); }
  void before_pass() override { parameters_->before_pass(); }
  void run_pass(bool is_first, FunctionRef<void()> pass) override { parameters_->run_pass(is_first, pass); }
  void after_passes() override { parameters_->after_passes(); }
  void after_update() override { parameters_->after_update(); }
  void complete_parameters() override { parameters_->complete(); }
  void after_reading() override { parameters_->after_reading(); }
  std::unique_ptr<WeightsScope> take_average(const Model& model, const WeightAverage& average) override {
    return parameters_->take_average(model, average);
  }
  bool sums_gradients() const override { return true; }
  void begin_gradients() override { gradients_->begin_step(); }
  void expect_backward(bool is_last) override { gradients_->expect_pass(is_last); }
  void finish_backward(bool is_last) override { gradients_->finish_pass(is_last); }
  FusedUpdate* fused_update() override { return fused_.get(); }

 protected:
  Communicator& processes_;

 private:
  std::shared_ptr<ParameterValues> parameters_;
  std::unique_ptr<FusedUpdate> fused_;
  std::unique_ptr<GradientSums> gradients_;
};

/// Processes that compute on CPUs: each collective is made when its call comes.
class HostReplicas final : public SeveralProcesses {
 public:
  using SeveralProcesses::SeveralProcesses;

  void check() override {}
  void compare_calls() override {}
  Tensor rows_of_all(const Tensor& own) override {
    Tensor rows = empty({processes_.size(), own.numel()}, own.dtype());
    processes_.all_gather(own, rows);
    return rows;
  }
  void sum(const Tensor& values) override { processes_.all_reduce(values, ReduceOp::kSum); }
};

/// Processes with a GPU each. The host waits for none of their collectives, which may be captured.
class DeviceReplicas final : public SeveralProcesses {
 public:
  using SeveralProcesses::SeveralProcesses;

  /// Before a replay, which would be of collectives that have ended.
  void check() override { processes_.on_device().check(); }
  void compare_calls() override { processes_.on_device().require_same_calls(processes_); }
  Tensor rows_of_all(const Tensor& own) override {
    Tensor rows = rows_.of({processes_.size(), own.numel()}, own.dtype(), own.device());
    processes_.on_device().all_gather_in_line(own, rows);
    return rows;
  }
  void sum(const Tensor& values) override {
    processes_.on_device().all_reduce_in_line(values, ReduceOp::kSum);
  }

 private:
  CollectiveMemory rows_;  // of rows_of_all()
};

}  // namespace

bool shards_parameters(const RunConfig& config, const Communicator& processes) {
  return config.comm.zero == 3 && !processes.alone();
}

std::shared_ptr<ShardedParameters> shard_parameters(const Model& model, const RunConfig& config,
                                                    Communicator& processes) {
  if (!shards_parameters(config, processes)) return nullptr;
  TrainedParameters parameters = trained_parameters(model, config.optim.adamw);
  return std::make_shared<ShardedParameters>(
      shards_of(model, config.optim.adamw, processes, config.comm.bucket_bytes()), parameters.trained,
      std::move(parameters.frozen));
}

AdamW make_optimizer(const Model& model, const RunConfig& config, Communicator& processes,
                     const ShardedParameters* sharded) {
  if (sharded != nullptr) return {model, config.optim.adamw, sharded->shards(), sharded->own()};
  return {model, config.optim.adamw, config.comm.zero > 0 ? processes : one_process(),
          config.comm.bucket_bytes()};
}

std::unique_ptr<Replicas> make_replicas(const Model& model, AdamW& optimizer, const RunConfig& config,
                                        Communicator& processes,
                                        const std::shared_ptr<ShardedParameters>& sharded) {
  if (processes.alone()) return std::make_unique<OneProcess>(optimizer);
  if (dry_run()) return std::make_unique<DryShare>(model, optimizer, config, processes, sharded);
  MOH_CHECK(config.train.accumulate % processes.size() == 0,
            "processes share the micro-batches of a step evenly");
  if (config.device == kCpu)
    return std::make_unique<HostReplicas>(model, optimizer, config, processes, sharded);
  MOH_CHECK(!config.cuda_graph || processes.on_device().capturable(),
            "comm.backend: host needs cuda_graph: false");
  return std::make_unique<DeviceReplicas>(model, optimizer, config, processes, sharded);
}

}  // namespace moh
