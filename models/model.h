#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/layers/head_routing_options.h"
#include "models/layers/moh_config.h"
#include "models/module.h"

namespace moh {

class HeadRouter;

/// A complete model of one family: the interface of programs that train, analyse or convert models,
/// independent of their inputs and outputs.
class Model : public Module {
 public:
  explicit Model(Placement placement) : placement_(placement) {}

  Device device() const { return placement_.device; }
  DType dtype() const { return placement_.dtype; }

  /// "llama", "vit", ...
  virtual std::string_view family() const = 0;
  /// Fills all parameters: a function of the seed and of their names alone.
  virtual void initialise(std::uint64_t seed) = 0;
  /// Standard deviation of initial matrices, for parameters (routers) that are added to a trained model.
  virtual double init_std() const = 0;
  /// Whether the recipe of the family applies weight decay to a parameter: to matrices, not to vectors.
  virtual bool decays(const NamedParameter& parameter) const { return is_matrix(parameter); }
  /// Tells that this share of the training is done, before each step: for parts that change on the way
  /// (MohConfig::learn_shared_until, top_k_anneal_until). Whatever follows from it is in parameters, or a
  /// function of the share alone. Returns whether from now on a pass runs other kernels, so that a captured
  /// one must not be replayed; before is_settled() none may be captured.
  virtual bool set_progress(double /*share*/) { return false; }
  /// The routing of each attention layer, in order; kind kNone for dense layers.
  virtual std::vector<HeadRoutingOptions> routing() const { return {}; }
  /// The router of each attention layer, in order; null for dense layers.
  virtual std::vector<const HeadRouter*> routers() const { return {}; }

 protected:
  const Placement& placement() const { return placement_; }

 private:
  Placement placement_;
};

/// Whether a layer of the model has a router.
bool is_routed(const Model& model);

/// Whether steps of equal size compute the same number of heads from now on (MohConfig::top_k_anneal_until).
bool is_settled(const Model& model);

/// Whether Model::set_progress() may write parameters: those that learned shared heads end in.
bool progress_writes_parameters(const Model& model);

/// Share of active heads: shared heads and top_k, summed over layers, divided by all heads (the paper's
/// "activated heads"); with `training`, the share of heads that are computed (computed_heads).
double activated_heads(std::span<const HeadRoutingOptions> layers, bool training = false);
double activated_heads(const Model& model, bool training = false);

/// The routers' parameters, with their names in parameters().
std::vector<NamedParameter> router_parameters(const Model& model);

/// Replaces the initial values of the routers' matrices, which are those of the model's other matrices, where
/// `init` says so; masks of heads are 0.
void initialise_routers(const Model& model, RouterInit init);

/// `routing` with the shared heads of the moment where they are learned.
std::vector<HeadRoutingOptions> with_learned_heads(const Model& model,
                                                   std::vector<HeadRoutingOptions> routing);

}  // namespace moh
