#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace moh {

/// The sums over the processes of a run of the gradients that their backward passes make. For each step:
///
///     begin_step()
///     expect_pass(is_last), a backward pass, finish_pass(is_last)    for each micro-batch of this process
///
/// A pass and these two calls can be captured on a GPU (core/cuda/graph.h): a replay needs no calls.
class GradientSums {
 public:
  virtual ~GradientSums() = default;
  GradientSums() = default;
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  virtual void begin_step() = 0;
  virtual void expect_pass(bool is_last) = 0;
  /// After that of the last pass the sums are there: on a GPU, for what its compute queue does from then on.
  virtual void finish_pass(bool is_last) = 0;

 protected:
  /// Zeros that captured work of both queues may refer to, and a library may register.
  static Tensor lasting_zeros(std::int64_t elements, DType dtype, Device device);
  /// The dtype in which gradients are sent: `wire`, but for bfloat16 ones, which are sent as they are.
  static DType wire_of(const Tensor& gradients, DType wire);
  /// The part of a bucket that is each process's, as a row.
  static Tensor rows_of(const Tensor& gradients, int processes);
};

}  // namespace moh
