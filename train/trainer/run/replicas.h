#pragma once

#include <memory>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"
#include "train/comm/communicator.h"
#include "train/trainer/optim/adamw.h"
#include "train/trainer/optim/fused_update.h"
#include "train/trainer/optim/weight_average.h"
#include "train/trainer/task/task.h"

namespace moh {

class ShardedParameters;
struct RunConfig;

/// How the processes of a run, each with a replica of the model, make one training step of their
/// micro-batches: the only place that knows how many they are, what carries their collectives, and what of
/// the state they divide. TrainStep calls, in this order, for each step:
///
///     check(), sizes_of_all()
///     prepare_loads()                          if passes that count loads come first (BalanceScope::kGlobal)
///     before_pass(), run_pass()                around each pass, the ones that count loads included
///     begin_gradients()                        before the first pass with a backward pass
///     rows_of_all()                            before the backward pass, with a fused_update()
///     expect_backward(), finish_backward()     around each backward pass
///     after_passes()
///     rows_of_all()                            otherwise
///     after_update()
///     compare_calls()
///
/// CUDA graphs capture the passes with run_pass(), expect_backward() and finish_backward(), and
/// rows_of_all() with them or the update: a replay makes the same collectives without these calls. Everything
/// else is called in each step.
class Replicas {
 public:
  virtual ~Replicas() = default;
  Replicas() = default;
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  /// The share of a step that this process computes, for Task::seek().
  virtual StepPart part() const = 0;
  /// Time that this process has waited for others so far, in seconds.
  virtual double waited_seconds() const = 0;

  // Agreement.

  /// Throws CommError if earlier collectives have failed.
  virtual void check() = 0;
  /// Throws CommError unless all processes have made the same calls so far. A collective.
  virtual void compare_calls() = 0;
  /// Sizes of the processes' shares of a step, by rank. A collective.
  virtual std::vector<StepSize> sizes_of_all(const StepSize& own) = 0;

  // Parameters, of which a process lacks the values that others have made (ParameterValues).

  virtual void prepare_loads() = 0;
  virtual void before_pass() = 0;
  /// `is_first`: the first pass with a backward pass.
  virtual void run_pass(bool is_first, FunctionRef<void()> pass) = 0;
  virtual void after_passes() = 0;
  virtual void after_update() = 0;
  /// Makes all parameters current, before they are read outside of passes. A collective.
  virtual void complete_parameters() = 0;
  virtual void after_reading() = 0;
  virtual std::unique_ptr<WeightsScope> take_average(const Model& model, const WeightAverage& average) = 0;

  // Gradients, which become sums over the processes.

  /// Whether the last backward pass of a step does more than the others.
  virtual bool sums_gradients() const = 0;
  virtual void begin_gradients() = 0;
  virtual void expect_backward(bool is_last) = 0;
  virtual void finish_backward(bool is_last) = 0;
  /// The update within the backward pass; null without optim.fused_update.
  virtual FusedUpdate* fused_update() = 0;

  // Numbers.

  /// [N, n]: row r is `own` [n] of process r, on its device, until the next call. A collective, maybe
  /// captured: `own` is CollectiveMemory.
  virtual Tensor rows_of_all(const Tensor& own) = 0;
  /// Replaces the elements by their sums over the processes. A collective.
  virtual void sum(const Tensor& values) = 0;
};

/// Divides the parameters of a model among the processes of a run with `comm.zero: 3`, which then writes
/// their values (ShardedParameters::end_filling()). Null for other runs, and for one process.
std::shared_ptr<ShardedParameters> shard_parameters(const Model& model, const RunConfig& config,
                                                    Communicator& processes);
/// Whether there is something to divide.
bool shards_parameters(const RunConfig& config, const Communicator& processes);

/// The optimiser of a run; `sharded` as for make_replicas(), after end_filling().
AdamW make_optimizer(const Model& model, const RunConfig& config, Communicator& processes,
                     const ShardedParameters* sharded);

/// For the processes of `config`, whose device says where they compute; in a dry run, for one that computes
/// the whole of a `config` that is its share. `sharded` has the parameters of which each process keeps a
/// part; null where all have all. The arguments must outlive the result. Gradients of the model are summed
/// from now on, if there are several processes (GradientBuckets, or ShardedGradients, of which the optimiser
/// takes them), and with optim.fused_update they update parameters.
std::unique_ptr<Replicas> make_replicas(const Model& model, AdamW& optimizer, const RunConfig& config,
                                        Communicator& processes,
                                        const std::shared_ptr<ShardedParameters>& sharded);

}  // namespace moh
