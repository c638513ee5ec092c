#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "models/config_faults.h"
#include "models/layers/linear.h"

namespace moh {

/// Ends of the names of an adapter's matrices, in place of ".weight"; those of PEFT.
inline constexpr std::string_view kLoraDown = ".lora_A.weight", kLoraUp = ".lora_B.weight";

/// Low-rank adapters of a LLaMA's linear maps (Hu et al. 2021, arXiv 2106.09685): their weights W stay as
/// they are, and W + (alpha / rank) B A is used, of which A and B are trained, with all parameters that the
/// dense model does not have (routers, gates).
struct LoraConfig {
  std::int64_t rank = 0;  ///< 0: no adapters, and everything is trained
  double alpha = 16;
  std::vector<std::string> targets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                      "gate_proj", "up_proj", "down_proj"};  ///< maps with adapters
  std::vector<std::string> full = {};  ///< further parts that are trained as a whole: norms, embeddings

  bool used() const { return rank > 0; }
  double scale() const { return alpha / static_cast<double>(rank); }
  bool adapts(std::string_view map) const;
  bool operator==(const LoraConfig&) const = default;
};

/// The values with which a model computes the same: targets in the order of the layer, defaults where no
/// adapter is used.
LoraConfig spelt_out(LoraConfig config);

/// Reports values that are out of range or unknown.
void check(const LoraConfig& config, ConfigFaults& faults);

/// Gives those of `maps` (name, map) that `config` names adapters, whose contents are undefined. The maps
/// have one input.
void add_adapters(const LoraConfig& config, std::initializer_list<std::pair<std::string_view, Linear*>> maps,
                  Placement placement);

/// Whether a parameter's name is that of an adapter's matrix.
bool is_adapter(std::string_view parameter);

/// The initial values of an adapter's matrix, with which the map is what it was: A uniform within
/// 1 / sqrt(in), as PEFT has it (kaiming_uniform with a = sqrt(5)), B zeros.
void initialise_adapter(const NamedParameter& parameter, RandomKey key);

/// Whether a parameter is trained where adapters are used.
bool trains(const LoraConfig& config, std::string_view parameter);

}  // namespace moh
