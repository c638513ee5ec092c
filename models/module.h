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

/// Whether it has two or more axes, unlike norm weights and biases.
inline bool is_matrix(const NamedParameter& parameter) {
  return parameter.variable.shape().rank() > 1;
}

/// Dtype and device of a module's parameters, and the math mode of its computations.
struct Placement {
  Placement(DType of, Device on = kCpu, MathMode with = {})  // NOLINT: a dtype alone means the CPU
      : dtype(of), device(on), math(with) {}

  DType dtype;
  Device device;
  MathMode math;  ///< of a model's forward pass, and so of its backward pass
};

/// A part of a model with named parameters and named children, as torch.nn.Module. Not copyable, since
/// optimisers hold handles to its parameters.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// All parameters, in the order in which they were added, each once.
  std::vector<NamedParameter> parameters() const;

 protected:
  /// Registers a new parameter, contents undefined, whose memory has the purpose kParameter.
  Variable add_parameter(const std::string& name, const Shape& shape, Placement placement);
  /// Registers a parameter that exists.
  void add_parameter(const std::string& name, const Variable& parameter);
  /// Registers a child, which must outlive this module (a member).
  void add_child(const std::string& name, const Module& child);
  /// Registers the parameters and children of `part`, a member, under their own names, without a prefix.
  void add_children_of(const Module& part);

 private:
  void collect(const std::string& prefix, std::vector<NamedParameter>& found) const;

  struct Entry {
    std::string name;
    Variable parameter;   // undefined for a child
    const Module* child;  // null for a parameter
  };
  std::vector<Entry> entries_;
};

/// A linear map's parameters: weight [out, in], and bias [out] or undefined.
struct LinearParameterPair {
  Variable weight, bias;
};

/// New parameters of linear maps of one x to outs[0], outs[1], ... elements, that lie one behind the other in
/// memory: packed_linear() of ops/linalg/linear.h multiplies them as one matrix. Contents are undefined.
std::vector<LinearParameterPair> adjoining_parameters(std::int64_t in, const std::vector<std::int64_t>& outs,
                                                      bool bias, Placement placement);

/// Number of elements of all parameters.
std::int64_t count_parameters(const Module& module);

/// The random sequence that initialises a parameter: a function of the run's seed and the parameter's name,
/// so that it has the same initial values in all models with this parameter, whatever else they contain.
RandomKey initialisation_key(std::uint64_t seed, const std::string& name);

}  // namespace moh
