#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/variable.h"
#include "core/math_mode.h"
#include "core/random.h"

namespace moh {

/// A parameter under its dotted name, that of the matching PyTorch model
/// ("model.layers.3.self_attn.q_proj.weight").
struct NamedParameter {
  std::string name;
  Variable variable;
};

/// What the parameters of a module are made of, where they live, and how they are computed with.
struct Placement {
  Placement(DType of, Device on = kCpu, MathMode with = {})  // NOLINT: a dtype alone means the CPU
      : dtype(of), device(on), math(with) {}

  DType dtype;
  Device device;
  MathMode math;  ///< in which a model's forward pass runs, and with it the backward pass
};

/// A part of a model: parameters and smaller parts, each under a name. Not copyable, as others hold handles
/// to its parameters.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// All parameters, in the order in which they were added, each once.
  std::vector<NamedParameter> parameters() const;

 protected:
  /// Makes a parameter of undefined content, counted as such.
  Variable add_parameter(const std::string& name, const Shape& shape, Placement placement);
  /// Enters a child that outlives this module (a member).
  void add_child(const std::string& name, const Module& child);
  /// Enters what `part`, a member, has entered, under the same names: a part without a level of its own.
  void add_children_of(const Module& part);

 private:
  void collect(const std::string& prefix, std::vector<NamedParameter>& found) const;

  struct Entry {
    std::string name;
    Variable parameter;  // or
    const Module* child;
  };
  std::vector<Entry> entries_;
};

/// Elements of all parameters.
std::int64_t count_parameters(const Module& module);

/// The random numbers that initialise a parameter: a function of the run's seed and the parameter's name, so
/// that models that share a parameter start it alike, whatever else they have.
RandomKey initialisation_key(std::uint64_t seed, const std::string& name);

}  // namespace moh
