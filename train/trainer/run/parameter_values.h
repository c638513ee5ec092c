#pragma once

#include <cstddef>
#include <memory>

#include "core/function_ref.h"
#include "models/model.h"
#include "train/trainer/optim/parameter_gather.h"
#include "train/trainer/optim/weight_average.h"

namespace moh {

/// How a process that updates a part of the parameters comes by the values of all. In each step:
///
///     prepare_loads()                     if passes that count loads come first
///     before_pass(), run_pass(pass)       around each pass; is_first is that of the first backward pass
///     expect_update(bucket)               within a pass, for an update there
///     after_passes()
///     after_update()
///
/// On a GPU run_pass() may be captured (core/cuda/graph.h): a replay does not call it.
class ParameterValues {
 public:
  virtual ~ParameterValues() = default;
  ParameterValues() = default;
  ParameterValues(const ParameterValues&) = delete;
  ParameterValues& operator=(const ParameterValues&) = delete;

  virtual void prepare_loads() = 0;
  virtual void before_pass() = 0;
  virtual void run_pass(bool is_first, FunctionRef<void()> pass) = 0;
  /// Before this process's elements of a bucket of the optimiser's shards are updated within a pass, which
  /// reads none of its parameters any more.
  virtual void expect_update(std::size_t /*bucket*/) {}
  virtual void after_passes() = 0;
  virtual void after_update() = 0;
  /// Makes all values current: until the next step they are read outside of passes, in the same order in all
  /// processes (evaluations, files). A collective.
  virtual void complete() = 0;
  /// Gives back the memory that such reading took.
  virtual void after_reading() = 0;
  /// Gives the parameters the values of their average as long as the result lives. A collective.
  virtual std::unique_ptr<WeightsScope> take_average(const Model& model, const WeightAverage& average) {
    return std::make_unique<WeightsScope>(model.parameters(), average.state());
  }
};

/// Values that all processes keep whole. Those of CPUs come while the step's first pass goes on.
class WholeValues final : public ParameterValues {
 public:
  explicit WholeValues(const AdamW& optimizer) : gather_(optimizer) {}

  void prepare_loads() override {}
  void before_pass() override { gather_.start(); }
  void run_pass(bool, FunctionRef<void()> pass) override { pass(); }
  void after_passes() override { gather_.finish(); }  // of what no pass has read
  void after_update() override { gather_.mark_stale(); }
  void complete() override { gather_.finish(); }
  void after_reading() override {}

 private:
  ParameterGather gather_;
};

/// Likewise between GPUs, where a gather may be captured: so the first backward pass of each step gathers,
/// whether values are stale or not, unless loads are counted before it.
class WholeDeviceValues final : public ParameterValues {
 public:
  explicit WholeDeviceValues(const AdamW& optimizer) : gather_(optimizer) {}

  void prepare_loads() override;
  void before_pass() override {}
  void run_pass(bool is_first, FunctionRef<void()> pass) override;
  void after_passes() override;
  void after_update() override { gather_.mark_stale(); }
  void complete() override { gather_.finish(); }
  void after_reading() override {}

 private:
  ParameterGather gather_;
  bool current_ = false;  // the passes that count loads have gathered
};

}  // namespace moh
