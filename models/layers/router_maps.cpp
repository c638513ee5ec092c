#include "models/layers/router_maps.h"

#include <utility>
#include <vector>

#include "ops/embedding/embedding.h"
#include "ops/linalg/linear.h"
#include "ops/shape/reshape.h"

namespace moh {

RouterMaps::RouterMaps(const RouterSizes& sizes, Placement placement) {
  const RouterWidths& widths = sizes.widths;
  const std::vector<LinearParameterPair> parameters = adjoining_parameters(
      sizes.width, {widths.routed, widths.type, widths.shared}, /*bias=*/false, placement);
  std::size_t part = 0;
  for (auto [name, linear] :
       {std::pair{"wg", &routed_}, std::pair{"wg_0", &type_}, std::pair{"wg_1", &shared_}}) {
    const LinearParameterPair& of = parameters[part++];
    if (of.weight.dim(0) == 0) continue;
    *linear = std::make_unique<Linear>(of);
    add_child(name, **linear);
  }
}

RouterLogits RouterMaps::operator()(const Variable& x, const RouterHeads& heads) const {
  RouterLogits logits;
  RouterWidths& widths = logits.widths;
  std::vector<Variable> weights;
  for (auto [map, width] : {std::pair{&routed_, &widths.routed}, std::pair{&type_, &widths.type},
                            std::pair{&shared_, &widths.shared}}) {
    if (!*map) continue;
    Variable weight = (*map)->weight();
    if (heads.shared.defined() && map == &shared_) {
      if (heads.shared.numel() == 1) continue;  // its gate needs no logit
      weight = embedding(weight, heads.shared);
    } else if (heads.routed.defined() && map == &routed_) {
      weight = embedding(weight, heads.routed);
    }
    weights.push_back(weight);
    *width = weight.dim(0);
  }
  if (weights.empty()) return logits;
  const Variable all = packed_linear(x, weights, {}, accumulate_dtype(x.dtype()));
  logits.packed = reshape(all, {x.numel() / x.dim(-1), all.dim(-1)});
  return logits;
}

}  // namespace moh
