#pragma once

#include <string_view>
#include <vector>

#include "models/forward_context.h"
#include "models/layers/head_routing.h"
#include "models/model.h"

namespace moh {

/// The result of a forward pass of an image classifier.
struct ImageOutput {
  Variable logits;                        ///< [B, classes]
  Variable features;                      ///< [B, D], of which the last layer makes the logits
  std::vector<LayerRouting> routing;      ///< one per MoH layer, in order; empty for a dense model
  std::vector<Variable> expert_balances;  ///< load-balance losses of the mixtures of feed-forward networks
};

/// The tokens inside of a forward pass of B images, N tokens of width D in each place.
struct ImageTokens {
  std::vector<Tensor> after_blocks;  ///< [B, N, D] each, of all blocks in order
  /// The input of the classifier's pooling: of a model of stages [B, height, width, D], normed; of a ViT
  /// [B, N, D] with the class token first, normed, unless the model norms the mean of its tokens.
  Tensor last;
};

/// A classifier of images, of any family.
class ImageModel : public Model {
 public:
  using Model::Model;

  /// images [B, H, W, C], channels last, in the model's dtype. context.head_scales must live until the
  /// backward pass. Throws ShapeError.
  virtual ImageOutput forward(const Variable& images, const ForwardContext& context = {}) const = 0;
  /// forward() of an evaluation, which shows its tokens.
  virtual ImageOutput forward_with_tokens(const Variable& images, ImageTokens& tokens) const = 0;
};

/// Throws ShapeError, naming the model, unless images are [B, H, W, channels].
void require_images(std::string_view model, const Variable& images, std::int64_t channels);

}  // namespace moh
