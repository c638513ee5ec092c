#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/tensor.h"
#include "ops/optim/adamw.h"
#include "ops/optim/adamw_kernels.h"
#include "ops/optim/clip_grad_norm_kernels.h"
#include "ops/optim/kernel_table.h"

namespace moh {

/// Clipping and AdamW (the formulas of clip_factor and adamw) over parameters on a GPU. The decision whether
/// to update, and the scale of the gradients, are computed on the GPU. The host does not wait, and each
/// update enqueues the same work, so that it can be part of a CUDA graph.
///
/// The parameters of an update may also be updated one by one, as their gradients come: begin(), update_one()
/// for each, finish(). Then nothing is clipped.
class DeviceAdamW {
 public:
  /// Every update reads and writes the tensors of `parameters`, at the same addresses; those of gradients,
  /// too, which are undefined if all updates are one by one. max_norm: maximum global L2 norm of the
  /// gradients; 0: no clipping. Throws as adamw() does.
  DeviceAdamW(const std::vector<AdamWParameter>& parameters, const AdamWBetas& betas, double max_norm);

  /// Sets the learning rate of subsequent updates.
  void set_learning_rate(double learning_rate);
  /// Sets the largest sum of the losses, and the largest global L2 norm of the gradients, of subsequent
  /// updates; infinity: no limit.
  void set_limits(double loss, double norm);
  /// Sets the number of updates so far, which determines the bias corrections.
  void set_steps(std::int64_t steps);

  /// One update, unless the global L2 norm of the gradients or the sum of `losses` (float64 [n]) is not
  /// finite, or above its limit: then the weights, the moments and the number of updates are unchanged.
  /// Returns float64 [2] on the GPU: the norm, and 1 if there was an update, else 0.
  ///
  /// The parameters may be a part of those whose norm counts: then `squares_of_all` gets the sum of the
  /// squares of their gradients, float64 [1] on the GPU, and returns those of all parts, [n], without
  /// waiting.
  Tensor update(const Tensor& losses,
                const std::function<Tensor(const Tensor& own)>& squares_of_all = {}) const;

  /// Begins an update one by one, which changes nothing if the sum of the losses is not finite, or above its
  /// limit.
  void begin(const Tensor& losses) const;
  /// Updates a parameter. If its gradient is not finite, neither this one nor those that follow are updated.
  void update_one(std::size_t parameter, const Tensor& grad) const;
  /// Ends the update, after update_one() for every parameter. Returns float64 [2] on the GPU: the norm, and 1
  /// if all were updated and the norm is finite, else 0. `squares_of_all` as that of update().
  Tensor finish(const std::function<Tensor(const Tensor& own)>& squares_of_all = {}) const;

 private:
  /// The chunks of all parameters of one dtype whose gradients are of type G.
  template <class T, class G>
  struct Chunks {
    KernelTable<GradChunk<G>> grads;
    KernelTable<AdamWChunk<T, G>> parameters;
    std::int64_t first_sum = 0;  ///< of square_sums_
  };
  /// The chunks of a parameter, in the tables of its type.
  struct Range {
    std::int64_t first = 0, count = 0;
    std::int64_t rate = 0;  ///< index in rates_
  };
  template <class T, class G>
  void add_chunks(const std::vector<AdamWParameter>& parameters, std::vector<AdamWScale>& scales,
                  Chunks<T, G>& chunks);
  template <class Fn>
  void each_type(const char* op, Fn&& fn) const;
  void decide(const Tensor& losses, const Tensor& square_sums, double max_norm, const Tensor& outcome) const;
  Tensor sum_of_squares() const;
  void update_alone(std::size_t parameter, const Tensor& grad) const;

  AdamWBetas betas_;
  double max_norm_;
  Tensor like_;                                  // a parameter
  std::map<std::size_t, AdamWParameter> alone_;  // not updated by elements, by number
  Chunks<float, float> float32_;
  Chunks<bfloat16, float> bfloat16_;
  Chunks<bfloat16, bfloat16> narrow_;
  std::vector<Range> ranges_;  // by parameter
  std::vector<DType> types_;   // of the parameters' values
  std::int64_t num_sums_ = 0;
  Tensor square_sums_;  // float64, one per chunk
  KernelTable<AdamWScale> scales_;
  Tensor rates_, coefficients_;  // bytes of an AdamWRate<float> per scale, of AdamWCoefficients<float>
  Tensor learning_rate_, limits_, steps_, go_;
};

}  // namespace moh
