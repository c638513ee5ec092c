#pragma once

#include <vector>

#include "train/families/images/image_family.h"
#include "train/families/images/image_run.h"
#include "train/trainer/config/load_run_config.h"

namespace moh {

/// A classifier's run with all defaults.
inline RunConfig default_image_run() {
  return default_run(image_family().defaults());
}

/// The part that its family defines.
inline ImageRun& images_of(RunConfig& run) {
  return dynamic_cast<ImageRun&>(*run.family);
}

/// A run of a small MoH model on drawn pictures of 16 pixels.
inline RunConfig small_image_run(ImageArchitecture architecture) {
  RunConfig run = default_image_run();
  ImageRun& images = images_of(run);
  images.model.architecture = architecture;
  images.model.classes = 8;
  images.model.image_size = 16;
  images.model.vit = {.patch_size = 4, .layers = 2, .hidden = 32, .heads = 4, .mlp_ratio = 2};
  TransNextConfig& transnext = images.model.transnext;
  transnext.patch_size = 2;
  transnext.dims = {24, 48};
  transnext.heads = {2, 4};
  transnext.depths = {1, 2};
  transnext.mlp_ratios = {2, 2};
  transnext.pool_ratios = {2, 1};
  images.model.moh.router = routers::kLearned;
  using Counts = std::vector<std::int64_t>;
  const bool stages = architecture == ImageArchitecture::kTransNext;
  images.model.moh.num_shared = stages ? PerLayer(Counts{2, 1}) : PerLayer(1);
  images.model.moh.top_k = stages ? PerLayer(Counts{0, 2}) : PerLayer(2);
  images.data.drawn = 64;
  images.data.drawn_validation = 20;
  run.train.batch_size = 8;
  run.train.steps = 4;
  return run;
}

}  // namespace moh
