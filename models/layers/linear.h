#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "models/module.h"
#include "ops/linalg/linear.h"

namespace moh {

/// The trained part of a linear map whose weight stays as it is (LoRA: Hu et al. 2021, arXiv 2106.09685):
/// weight + scale * up down, of rank r.
struct LowRankAdapter {
  Variable down;  ///< "A" [r, in], the parameter `lora_A.weight`
  Variable up;    ///< "B" [out, r], the parameter `lora_B.weight`
  double scale = 1;
};

/// y = x weight^T + bias; x [..., in], weight [out, in], bias [out] or none. With a LowRankAdapter
/// y = x weight^T + bias + scale * (x down^T) up^T.
class Linear : public Module {
 public:
  Linear(std::int64_t in, std::int64_t out, bool bias, Placement placement)
      : weight_(add_parameter("weight", {out, in}, placement)) {
    if (bias) bias_ = add_parameter("bias", {out}, placement);
  }

  /// With parameters that exist.
  explicit Linear(const LinearParameterPair& parameters)
      : weight_(parameters.weight), bias_(parameters.bias) {
    add_parameter("weight", weight_);
    if (bias_.defined()) add_parameter("bias", bias_);
  }

  /// Adds the adapter, and its parameters after the others.
  void add_adapter(const LowRankAdapter& adapter);

  Variable operator()(const Variable& x) const { return adapted(x, linear(x, weight_, bias_)); }
  /// y [..., out], which another op made of x, weight() and bias(), with what the adapter adds; y itself
  /// without one.
  Variable adapted(const Variable& x, const Variable& y) const;

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }  ///< undefined without one
  const std::optional<LowRankAdapter>& adapter() const { return adapter_; }
  /// The matrix of the whole map, [out, in]: weight() itself, or weight() + scale * up down as a new tensor,
  /// rounded once.
  Tensor whole_weight() const;

 private:
  Variable weight_;
  Variable bias_;
  std::optional<LowRankAdapter> adapter_;
};

/// The results of several maps of one x, computed together (ops/linalg/linear.h).
std::vector<Variable> apply_each(std::initializer_list<const Linear*> maps, const Variable& x);

/// The maps' results side by side in the last axis (packed_linear()). The maps have biases, or none of them
/// has one; adapters, of one scale, all or some.
Variable apply_packed(std::initializer_list<const Linear*> maps, const Variable& x);

}  // namespace moh
