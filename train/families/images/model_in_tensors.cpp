#include "train/families/images/model_in_tensors.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "models/layers/output_gate.h"
#include "models/vision/transnext_config.h"
#include "train/families/images/timm_config.h"
#include "train/weights/sizes_in.h"

namespace moh {

namespace {

/// The gates of the attention layers, by those of one of them.
AttentionGate gate_in(const WeightFile& weights, const std::string& attention) {
  return gate_of_rows(length_in(weights, attention + "output_gate.weight", 0),
                      length_in(weights, attention + "proj.weight", 1));
}

void add_untold_routing(const WeightFile& weights, std::vector<std::string_view>& untold) {
  if (!has_routers(weights)) return;
  untold.insert(untold.end(), {"model.moh.router", "model.moh.num_shared", "model.moh.top_k"});
}

ModelInTensors vit_in(const WeightFile& weights) {
  ModelInTensors found;
  ImageModelConfig& c = found.model;
  c.architecture = ImageArchitecture::kVit;
  c.classes = length_in(weights, "head.weight", 0);
  c.vit.hidden = length_in(weights, "patch_embed.proj.weight", 0);
  c.vit.patch_size = length_in(weights, "patch_embed.proj.weight", 2);
  c.vit.layers = count_in(weights, "blocks.", ".attn.qkv.weight");
  const bool has_token = weights.find("cls_token") != nullptr;
  c.vit.pooling = has_token ? VitPooling::kClassToken : VitPooling::kMean;
  const std::int64_t tokens = length_in(weights, "pos_embed", 1) - (has_token ? 1 : 0);
  c.image_size = side_of_square(tokens) * c.vit.patch_size;
  const std::int64_t inner = length_in(weights, "blocks.0.mlp.fc1.weight", 0);
  c.vit.mlp_ratio = c.vit.hidden > 0 ? inner / c.vit.hidden : 0;
  c.attention_gate = gate_in(weights, "blocks.0.attn.");
  c.vit.heads = timm_heads(c.vit.hidden, c.vit.layers);
  if (c.vit.heads == 0) {
    c.vit.heads = 1;
    found.untold.emplace_back("model.vit.heads");
  }
  add_untold_routing(weights, found.untold);
  return found;
}

/// A stage of a TransNeXt; `inner` is the width inside of its MLPs.
void add_stage(const WeightFile& weights, const std::string& number, TransNextConfig& c) {
  const std::string block = "block" + number + ".", attention = block + "0.attn.";
  const std::int64_t width = length_in(weights, "patch_embed" + number + ".proj.weight", 0);
  const std::int64_t inner = length_in(weights, block + "0.mlp.fc2.weight", 1);
  c.dims.push_back(width);
  c.depths.push_back(count_in(weights, block, ".norm1.weight"));
  c.heads.push_back(length_in(weights, attention + "temperature", 0));
  c.mlp_ratios.push_back(
      width > 0 ? std::llround(1.5 * static_cast<double>(inner) / static_cast<double>(width)) : 0);
  const bool is_full = weights.find(attention + "qkv.weight") != nullptr;
  c.pool_ratios.push_back(is_full ? 1 : 2);
  if (const std::int64_t cells = length_in(weights, attention + "relative_pos_bias_local", 1); cells > 0)
    c.window = side_of_square(cells);
}

ModelInTensors transnext_in(const WeightFile& weights) {
  ModelInTensors found;
  ImageModelConfig& c = found.model;
  c.architecture = ImageArchitecture::kTransNext;
  c.classes = length_in(weights, "head.weight", 0);
  TransNextConfig& t = c.transnext;
  t.dims.clear(), t.depths.clear(), t.heads.clear(), t.mlp_ratios.clear(), t.pool_ratios.clear();
  const std::int64_t stages = count_in(weights, "patch_embed", ".proj.weight", 1);
  for (std::int64_t s = 1; s <= stages; ++s) add_stage(weights, std::to_string(s), t);
  c.attention_gate = gate_in(weights, "block1.0.attn.");
  found.untold = {"model.image_size", "model.transnext.patch_size", "model.transnext.pool_ratios"};
  add_untold_routing(weights, found.untold);
  return found;
}

}  // namespace

ModelInTensors image_model_in(const WeightFile& weights) {
  if (weights.find("patch_embed.proj.weight") != nullptr) return vit_in(weights);
  if (weights.find("patch_embed1.proj.weight") != nullptr) return transnext_in(weights);
  ModelInTensors none;
  none.model.classes = 0;
  return none;
}

}  // namespace moh
