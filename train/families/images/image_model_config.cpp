#include "train/families/images/image_model_config.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "models/find_preset.h"
#include "models/vision/transnext.h"
#include "models/vision/vit.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

using config::above;
using config::at_least;
using config::from_below;
using config::kMaxHeads;
using config::kMaxLayers;
using config::kMaxWidth;
using config::Section;

constexpr std::string_view kArchitectureNames[] = {"transnext", "vit"};
constexpr std::string_view kSingleKvHead =
    "All heads of a layer share one key and one value (multi-query attention; the baseline MoA).";
constexpr double kMaxSide = 1 << 14, kMaxRatio = 1024;

/// The fields that both architectures have.
template <class Config>
Config with_common(Config config, const ImageModelConfig& common) {
  config.classes = common.classes;
  config.drop_path = common.drop_path;
  config.attention_gate = common.attention_gate;
  config.recompute = common.recompute;
  config.moh = common.moh;
  return config;
}

template <class Config>
ImageModelConfig from_preset(const Config& preset, ImageArchitecture architecture) {
  ImageModelConfig config;
  config.architecture = architecture;
  config.classes = preset.classes;
  config.drop_path = preset.drop_path;
  config.attention_gate = preset.attention_gate;
  config.recompute = preset.recompute;
  config.moh = preset.moh;
  return config;
}

Section vit_section(VitConfig& c) {
  Section s("vit", "With `architecture: vit`: a vision transformer (DeiT).");
  s.field("patch_size", c.patch_size, at_least(1, "pixels").capped(kMaxSide),
          "Side of a patch, which becomes a token.");
  s.field("layers", c.layers, at_least(1).capped(kMaxLayers), "Number of transformer blocks.");
  s.field("hidden", c.hidden, at_least(1).capped(kMaxWidth), "Width of a token.");
  s.field("heads", c.heads, at_least(1).capped(kMaxHeads), "Heads per layer.").unseen_in_weights();
  s.field("head_dim", c.head_dim, at_least(0).capped(kMaxWidth),
          "Width of a head; `heads` times it may differ from `hidden`. 0: `hidden` / `heads`.")
      .unseen_in_weights();
  s.field("single_kv_head", c.single_kv_head, kSingleKvHead);
  s.field("mlp_ratio", c.mlp_ratio, at_least(1).capped(kMaxRatio), "Width inside the MLP / `hidden`.");
  s.field("pooling", c.pooling,
          "The input of the classifier: a `class_token` that attends to the image, or the `mean` of the "
          "image's tokens.");
  s.field("norm_eps", c.norm_eps, above(0), "Added to the variance in LayerNorm.").unseen_in_weights();
  return s;
}

Section transnext_section(TransNextConfig& c) {
  Section s("transnext",
            "With `architecture: transnext`: a TransNeXt, of stages on ever coarser grids of tokens. Lists "
            "have a value per stage.");
  s.field("patch_size", c.patch_size, at_least(1, "pixels").capped(kMaxSide),
          "Pixels from one token of the first stage to the next.")
      .unseen_in_weights();
  s.field("dims", c.dims, at_least(1).capped(kMaxWidth), "Width of a token.");
  s.field("heads", c.heads, at_least(1).capped(kMaxHeads), "Heads per layer.");
  s.field("head_dim", c.head_dim, at_least(0).capped(kMaxWidth),
          "Width of a head of any stage; `heads` times it may differ from `dims`. 0: `dims` / `heads`.");
  s.field("single_kv_head", c.single_kv_head, kSingleKvHead);
  s.field("depths", c.depths, at_least(1).capped(kMaxLayers), "Number of blocks.");
  s.field("mlp_ratios", c.mlp_ratios, at_least(1).capped(kMaxRatio),
          "Width inside ConvGLU / `dims`, times 3/2.");
  s.field("pool_ratios", c.pool_ratios, at_least(1).capped(kMaxRatio),
          "Tokens along an axis for one pooled token. 1: full attention.")
      .unseen_in_weights();
  s.field("window", c.window, at_least(1).capped(15),
          "Side of the square of neighbours that a token attends to; odd.");
  s.field("kept_keys", c.kept_keys, config::Bounds{.low = 1, .high = 100, .unit = "percent"},
          "Keys that each query keeps, those of the largest logits (sparse attention). Empty: all.")
      .unseen_in_weights();
  s.field("fixed_pool_size", c.fixed_pool_size, at_least(0).capped(kMaxSide),
          "Side of the grid of pooled tokens, whatever the image's size: attention is then linear in the "
          "number of tokens. 0: by `pool_ratios`.")
      .unseen_in_weights();
  s.field("experts", c.experts, at_least(1).capped(64),
          "Feed-forward networks of a block, of which each token takes one. 1: no mixture.");
  return s;
}

}  // namespace

std::span<const std::string_view> names_of(ImageArchitecture) {
  return kArchitectureNames;
}

VitConfig vit_of(const ImageModelConfig& config) {
  VitConfig vit = with_common(config.vit, config);
  vit.image_size = config.image_size;
  return vit;
}

TransNextConfig transnext_of(const ImageModelConfig& config) {
  TransNextConfig transnext = with_common(config.transnext, config);
  transnext.pretrain_size = config.image_size;
  return transnext;
}

Section vision_moh_section(MohConfig& c) {
  Section s = config::describe(c);
  for (const char* name : {"top_k", "gate_scaling"}) s.properties_of(name).unseen_in_weights();
  return s;
}

void add_fields(ImageModelConfig& c, Section& s) {
  s.field("architecture", c.architecture,
          "`transnext` (the paper's MoH-ViT is one) or `vit` (DeiT), with the sizes of the section of that "
          "name.");
  s.field("classes", c.classes, at_least(1).capped(config::kMaxVocab),
          "Number of classes: those of the training images.");
  s.field("image_size", c.image_size, at_least(1, "pixels").capped(kMaxSide),
          "Side of the images that the model is made for: of the position embeddings of a ViT, and the unit "
          "of relative positions of a TransNeXt. Images of other sizes can be classified, too.")
      .differs_freely()
      .unseen_in_weights();
  s.field("drop_path", c.drop_path, from_below(0, 1),
          "Probability that a residual branch of the last block is dropped in training (stochastic depth); "
          "it grows linearly from 0 at the first.")
      .differs_freely()
      .of_training()
      .optional_with_weights();
  config::add_attention_gate(c.attention_gate, s);
  config::add_recompute(c.recompute, s);
  Section vit = vit_section(c.vit), transnext = transnext_section(c.transnext);
  Section& unused = c.architecture == ImageArchitecture::kVit ? transnext : vit;
  unused.properties().optional_with_weights();  // describes nothing
  s.section(std::move(vit));
  s.section(std::move(transnext));
  s.section(vision_moh_section(c.moh));
}

ConfigFaults faults_of(ImageArchitecture architecture) {
  const std::string section =
      "model." + std::string(kArchitectureNames[static_cast<std::size_t>(architecture)]) + ".";
  return ConfigFaults(section, {{"classes", "model.classes"},
                                {"image_size", "model.image_size"},
                                {"pretrain_size", "model.image_size"},
                                {"drop_path", "model.drop_path"},
                                {"moh.", "model.moh."}});
}

void check(const ImageModelConfig& c, ConfigFaults& faults) {
  if (c.architecture == ImageArchitecture::kVit) {
    check(vit_of(c), faults);
  } else {
    check(transnext_of(c), faults);
  }
}

PerLayer heads_of(const ImageModelConfig& c) {
  if (c.architecture == ImageArchitecture::kVit) return c.vit.heads;
  return c.transnext.heads;
}

std::int64_t layers_of(const ImageModelConfig& c) {
  return c.architecture == ImageArchitecture::kVit ? c.vit.layers : num_blocks(c.transnext);
}

std::vector<HeadRoutingOptions> routing_of(const ImageModelConfig& c) {
  return c.architecture == ImageArchitecture::kVit ? routing_of(vit_of(c)) : routing_of(transnext_of(c));
}

ImageModelConfig spelt_out(ImageModelConfig c) {
  if (c.architecture == ImageArchitecture::kVit) {
    c.transnext = {};
    c.moh = spelt_out(c.moh, c.vit.layers);
    c.vit.head_dim = c.vit.head_width();
  } else {
    c.vit = {};
    c.moh = moh_of_blocks(transnext_of(c));
    c.moh = spelt_out(c.moh, num_blocks(c.transnext));
  }
  return c;
}

std::vector<std::string> image_presets() {
  std::vector<std::string> names = preset_names(transnext_presets());
  std::ranges::copy(preset_names(vit_presets()), std::back_inserter(names));
  return names;
}

ImageModelConfig image_preset(std::string_view name) {
  if (const VitPreset* vit = find_preset(vit_presets(), name)) {
    ImageModelConfig config = from_preset(vit->config, ImageArchitecture::kVit);
    config.image_size = vit->config.image_size;
    config.vit = vit->config;
    return config;
  }
  const TransNextPreset* transnext = find_preset(transnext_presets(), name);
  MOH_CHECK(transnext != nullptr, "image_preset: one of image_presets()");
  ImageModelConfig config = from_preset(transnext->config, ImageArchitecture::kTransNext);
  config.image_size = transnext->config.pretrain_size;
  config.transnext = transnext->config;
  return config;
}

std::unique_ptr<ImageModel> make_image_model(const ImageModelConfig& c, Placement placement) {
  if (c.architecture == ImageArchitecture::kVit) return std::make_unique<Vit>(vit_of(c), placement);
  return std::make_unique<TransNext>(transnext_of(c), placement);
}

}  // namespace moh
