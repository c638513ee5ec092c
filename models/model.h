#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/layers/head_routing.h"
#include "models/module.h"

namespace moh {

/// A whole model of one family: what a program that trains, analyses or converts has to know of it, whatever
/// its inputs and outputs are.
class Model : public Module {
 public:
  explicit Model(Placement placement) : placement_(placement) {}

  Device device() const { return placement_.device; }
  DType dtype() const { return placement_.dtype; }

  /// "llama", "vit", ...
  virtual std::string_view family() const = 0;
  /// Fills all parameters: a function of the seed and of their names alone.
  virtual void initialise(std::uint64_t seed) = 0;
  /// Standard deviation of initial matrices, for parameters that are added to a model that was trained.
  virtual double init_std() const = 0;
  /// The routing of each attention layer, in order; kind kNone where it is dense.
  virtual std::vector<HeadRoutingOptions> routing() const { return {}; }
  /// The router of each attention layer, in order; null where it is dense.
  virtual std::vector<const HeadRouter*> routers() const { return {}; }

 protected:
  const Placement& placement() const { return placement_; }

 private:
  Placement placement_;
};

/// Whether a layer of the model has a router.
bool is_routed(const Model& model);

/// Share of the attention heads that are active: sum of shared and selected heads over sum of heads (the
/// paper's "activated"); in training, of those that are computed (computed_heads).
double activated_heads(std::span<const HeadRoutingOptions> layers, bool training = false);
double activated_heads(const Model& model, bool training = false);

/// The names of the routers' parameters, as parameters() has them.
std::vector<NamedParameter> router_parameters(const Model& model);

}  // namespace moh
