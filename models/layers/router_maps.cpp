#include "models/layers/router_maps.h"

#include <tuple>
#include <utility>
#include <vector>

#include "ops/embedding/embedding.h"
#include "ops/linalg/linear.h"
#include "ops/shape/reshape.h"

namespace moh {

RouterMaps::RouterMaps(const RouterSizes& sizes, Placement placement) {
  const RouterWidths& widths = sizes.widths;
  for (auto [name, linear, out] :
       {std::tuple{"wg", &routed_, widths.routed}, std::tuple{"wg_0", &type_, widths.type},
        std::tuple{"wg_1", &shared_, widths.shared}}) {
    if (out == 0) continue;
    *linear = std::make_unique<Linear>(sizes.width, out, /*bias=*/false, placement);
    add_child(name, **linear);
  }
}

RouterLogits RouterMaps::operator()(const Variable& x, const RouterHeads& heads) const {
  RouterLogits logits;
  std::vector<Variable> weights;
  std::vector<Variable*> places;
  for (auto [map, place] : {std::pair{&routed_, &logits.routed}, std::pair{&type_, &logits.type},
                            std::pair{&shared_, &logits.shared}}) {
    if (!*map) continue;
    Variable weight = (*map)->weight();
    if (heads.shared.defined() && map == &shared_) {
      if (heads.shared.numel() == 1) continue;  // its gate needs no logit
      weight = embedding(weight, heads.shared);
    } else if (heads.routed.defined() && map == &routed_) {
      weight = embedding(weight, heads.routed);
    }
    weights.push_back(weight);
    places.push_back(place);
  }
  if (weights.empty()) return logits;
  const std::vector<Variable> results = linears(x, weights, {}, accumulate_dtype(x.dtype()));
  const std::int64_t rows = x.numel() / x.shape()[-1];
  for (std::size_t i = 0; i < results.size(); ++i) *places[i] = reshape(results[i], {rows, -1});
  return logits;
}

}  // namespace moh
