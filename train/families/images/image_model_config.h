#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/vision/image_model.h"
#include "models/vision/transnext_config.h"
#include "models/vision/vit_config.h"
#include "train/config/fields.h"

namespace moh {

enum class ImageArchitecture { kTransNext, kVit };
std::span<const std::string_view> names_of(ImageArchitecture);

/// A classifier of images, of either architecture: the section `model` of a run with images. What both
/// architectures have stands here; the same fields of `vit` and `transnext` are not used.
struct ImageModelConfig {
  ImageArchitecture architecture = ImageArchitecture::kTransNext;
  std::int64_t classes = 1000;
  std::int64_t image_size = 224;  ///< side of the images that positions are for
  double drop_path = 0;           ///< of the last block
  AttentionGate attention_gate = AttentionGate::kNone;
  RecomputeLevel recompute = RecomputeLevel::kNone;
  MohConfig moh;
  VitConfig vit;
  TransNextConfig transnext;

  bool operator==(const ImageModelConfig&) const = default;
};

/// The model's own configuration; that of the other architecture describes no model.
VitConfig vit_of(const ImageModelConfig& config);
TransNextConfig transnext_of(const ImageModelConfig& config);

/// The section `moh` of a vision model, whose weights do not tell how many heads are active.
config::Section vision_moh_section(MohConfig& config);
/// Adds the fields to the section `model`.
void add_fields(ImageModelConfig& config, config::Section& model);
/// Reports the faults of the model, at keys of the section `model`.
void check(const ImageModelConfig& config, ConfigFaults& faults);
/// For check(): keys of the section for the fields of both structs.
ConfigFaults faults_of(ImageArchitecture architecture);

/// Heads of each layer: of a ViT one number, of a TransNeXt one for each stage.
PerLayer heads_of(const ImageModelConfig& config);
/// Number of attention layers.
std::int64_t layers_of(const ImageModelConfig& config);
std::vector<HeadRoutingOptions> routing_of(const ImageModelConfig& config);

/// The model in one form: routing listed layer by layer (spelt_out), and defaults for the sizes of the other
/// architecture.
ImageModelConfig spelt_out(ImageModelConfig config);

/// Names of the published models of both architectures.
std::vector<std::string> image_presets();
/// The configuration of one of them.
ImageModelConfig image_preset(std::string_view name);

std::unique_ptr<ImageModel> make_image_model(const ImageModelConfig& config, Placement placement);

}  // namespace moh
