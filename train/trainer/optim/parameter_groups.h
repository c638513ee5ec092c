#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

class Model;

/// An entry of `optim.groups`: how the optimiser treats the parameters that it names.
struct ParameterGroup {
  std::vector<std::string> match;      ///< patterns of names, in which `*` stands for any characters
  double learning_rate_scale = 1;      ///< factor of the step's learning rate
  std::optional<double> weight_decay;  ///< in place of the optimiser's, for parameters that have one
  bool freeze = false;                 ///< the parameters keep their values

  bool operator==(const ParameterGroup&) const = default;
};

/// The optimiser's treatment of one parameter.
struct ParameterUse {
  double weight_decay = 0;
  double learning_rate_scale = 1;
  bool frozen = false;
  bool orthogonal = false;  ///< updated by Muon
};

/// Whether the whole name matches the pattern: `*` stands for any number of any characters, `?` for one.
bool matches(std::string_view pattern, std::string_view name);

/// The uses of a model's parameters, in their order. A parameter belongs to the last group that matches it,
/// which alone decides; one that no group matches is trained with `weight_decay`, as the model says
/// (Model::decays). What the model does not train (fixed position embeddings) is frozen in any group. Throws
/// ConfigError naming optim.groups[i] for a pattern that matches no parameter, for a group all of whose
/// parameters belong to later ones, and if everything is frozen.
std::vector<ParameterUse> parameter_uses(const Model& model, const std::vector<ParameterGroup>& groups,
                                         double weight_decay);

/// Marks as orthogonal what Muon is for, the matrices inside of layers (their names have a number between
/// dots), but not those of routers: embeddings, logits and vectors are AdamW's, as its authors have it.
void mark_hidden_matrices(const Model& model, std::vector<ParameterUse>& uses);

/// For the log: a line for each group with its number of parameters; empty without groups.
std::vector<std::string> describe_groups(const Model& model, const std::vector<ParameterGroup>& groups);

/// Makes frozen parameters constants, so that they get no gradient, nor is anything computed or kept for one.
void freeze(const Model& model, const std::vector<ParameterUse>& uses);

}  // namespace moh
