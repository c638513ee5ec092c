#pragma once

#include <initializer_list>
#include <vector>

#include "models/module.h"
#include "ops/linalg/linear.h"

namespace moh {

/// y = x weight^T + bias; x [..., in], weight [out, in], bias [out] or none.
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

  Variable operator()(const Variable& x) const { return linear(x, weight_, bias_); }
  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }  ///< undefined without one

 private:
  Variable weight_;
  Variable bias_;
};

/// The results of several maps of one x, computed together (ops/linalg/linear.h).
inline std::vector<Variable> apply_each(std::initializer_list<const Linear*> maps, const Variable& x) {
  std::vector<Variable> weights, biases;
  for (const Linear* map : maps) {
    weights.push_back(map->weight());
    biases.push_back(map->bias());
  }
  return linears(x, weights, biases);
}

/// The maps' results side by side in the last axis (packed_linear()). The maps have biases, or none of them
/// has one.
inline Variable apply_packed(std::initializer_list<const Linear*> maps, const Variable& x) {
  std::vector<Variable> weights, biases;
  for (const Linear* map : maps) {
    weights.push_back(map->weight());
    if (map->bias().defined()) biases.push_back(map->bias());
  }
  return packed_linear(x, weights, biases);
}

}  // namespace moh
