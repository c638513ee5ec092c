#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/layers/attention_gate.h"
#include "models/layers/moh_config.h"
#include "models/recompute_level.h"

namespace moh {

/// TransNeXt (Shi 2023, arXiv 2311.17132): stages of blocks, each stage on a grid of tokens half as fine as
/// the one before. Lists have a value per stage.
struct TransNextConfig {
  std::int64_t channels = 3;  ///< of an image
  std::int64_t classes = 1000;
  std::int64_t patch_size = 4;  ///< pixels from one token of the first stage to the next
  std::vector<std::int64_t> dims = {72, 144, 288, 576};
  std::vector<std::int64_t> heads = {3, 6, 12, 24};
  std::int64_t head_dim = 0;    ///< of all stages; 0: dims / heads. heads * head_dim may differ from dims
  bool single_kv_head = false;  ///< all heads of a layer share one key and one value head (MoA)
  std::vector<std::int64_t> depths = {2, 2, 15, 2};
  std::vector<std::int64_t> mlp_ratios = {8, 8, 4, 4};
  /// Tokens along an axis for one pooled token; 1: full attention.
  std::vector<std::int64_t> pool_ratios = {8, 4, 2, 1};
  std::int64_t window = 3;
  /// Percent of the keys that each query keeps, those of the largest logits (sparse attention); empty: all.
  std::vector<std::int64_t> kept_keys = {};
  /// If not 0, the side of the pooled grid, whatever the image's size: attention is then linear in the number
  /// of tokens. Stages of full attention keep it.
  std::int64_t fixed_pool_size = 0;
  std::int64_t pretrain_size =
      224;  ///< side of the images the model is trained on: the unit of relative positions
  /// Feed-forward networks of a block, of which each token takes one (top-1); 1: no mixture.
  std::int64_t experts = 1;
  double drop_path = 0;  ///< of the last block; rates grow linearly from 0
  AttentionGate attention_gate = AttentionGate::kNone;
  RecomputeLevel recompute = RecomputeLevel::kNone;
  /// Lists of counts have a value per stage, or per block of all stages.
  MohConfig moh;

  bool operator==(const TransNextConfig&) const = default;

  std::int64_t stages() const { return static_cast<std::int64_t>(dims.size()); }
  /// Width of a head in a stage.
  std::int64_t head_width(std::size_t stage) const {
    return head_dim > 0 ? head_dim : dims[stage] / heads[stage];
  }
};

/// Reports values that are out of range or inconsistent.
void check(const TransNextConfig& config, ConfigFaults& faults);
/// Throws ValueError for the first fault that check() reports.
void require_valid(const TransNextConfig& config);

/// Number of blocks of all stages.
std::int64_t num_blocks(const TransNextConfig& config);
/// Width of ConvGLU's inner layer in a stage: 2/3 of dims * mlp_ratios, rounded down.
std::int64_t glu_hidden(const TransNextConfig& config, std::int64_t stage);

/// The routing with lists for all blocks in place of lists for stages. The lists are valid.
MohConfig moh_of_blocks(const TransNextConfig& config);
/// Routing of all blocks, in order.
std::vector<HeadRoutingOptions> routing_of(const TransNextConfig& config);

/// A published model, or a baseline of one, by name.
struct TransNextPreset {
  std::string_view name;
  TransNextConfig config;
  std::string_view origin;  ///< source of the sizes
};
/// transnext_tiny, _small and _base, their MoH variants, and the dense models with as many heads as these
/// have active.
const std::vector<TransNextPreset>& transnext_presets();

}  // namespace moh
