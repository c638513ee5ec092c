#pragma once

#include <memory>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"
#include "train/comm/communicator.h"
#include "train/trainer/optim/adamw.h"
#include "train/trainer/task/task.h"

namespace moh {

struct RunConfig;

/// How the processes of a run, each with a replica of the model, make one training step of their
/// micro-batches: the only place that knows how many they are, what carries their collectives, and what of
/// the state they divide. TrainStep calls, in this order, for each step:
///
///     check(), sizes_of_all()
///     prepare_loads()                          if passes that count loads come first (BalanceScope::kGlobal)
///     before_pass()                            before each pass, the ones that count loads included
///     begin_gradients()                        before the first pass with a backward pass
///     run_first_pass(pass)                     around the first of these
///     expect_last_backward(), finish_gradients()   around the backward pass of the last micro-batch
///     after_passes()
///     rows_of_all(), after_update()
///     compare_calls()
///
/// CUDA graphs capture the passes with run_first_pass(), expect_last_backward() and finish_gradients(), and
/// rows_of_all() with the update: a replay makes the same collectives without these calls. Everything else is
/// called in each step.
///
/// A strategy that divides more than the optimiser's state has its places here: gradients that are freed when
/// they are reduced (ZeRO stage 2) between expect_last_backward() and finish_gradients(), parameters that are
/// gathered layer by layer (stage 3) in before_pass() and after_passes(), with a PendingValue for each leaf.
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

  // Parameters, which are stale after an update where the optimiser's state is divided.

  virtual void prepare_loads() = 0;
  virtual void before_pass() = 0;
  virtual void run_first_pass(FunctionRef<void()> pass) = 0;
  virtual void after_passes() = 0;
  virtual void after_update() = 0;
  /// Makes all parameters current, before one process reads them alone. A collective.
  virtual void complete_parameters() = 0;

  // Gradients, which become sums over the processes.

  /// Whether the last backward pass of a step does more than the others.
  virtual bool sums_gradients() const = 0;
  virtual void begin_gradients() = 0;
  virtual void expect_last_backward() = 0;
  virtual void finish_gradients() = 0;

  // Numbers.

  /// [N, n]: row r is `own` [n] of process r, on its device, until the next call. A collective, maybe
  /// captured: `own` is CollectiveMemory.
  virtual Tensor rows_of_all(const Tensor& own) = 0;
  /// Replaces the elements by their sums over the processes. A collective.
  virtual void sum(const Tensor& values) = 0;
};

/// For the processes of `config`, whose device says where they compute. The arguments must outlive the
/// result. Gradients of the model are summed in buckets from now on, if there are several processes.
std::unique_ptr<Replicas> make_replicas(const Model& model, const AdamW& optimizer, const RunConfig& config,
                                        Communicator& processes);

}  // namespace moh
