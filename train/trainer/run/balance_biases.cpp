#include "train/trainer/run/balance_biases.h"

#include <optional>

#include "core/error.h"
#include "models/layers/head_routing.h"
#include "ops/moh/balance_bias.h"
#include "train/trainer/task/routing_numbers.h"

namespace moh {

BalanceBiases::BalanceBiases(const Model& model) {
  std::int64_t number = 0;
  for (const HeadRouter* const router : model.routers()) {
    if (router == nullptr) continue;
    const HeadRoutingOptions options = router->options();
    const Tensor bias = router->balance_bias();
    if (bias.defined()) layers_.push_back({number, bias, options.router.groups, options.balance_bias});
    ++number;
  }
}

void BalanceBiases::update(const Tensor& numbers, const NumberLayout& layout, const Tensor& go) const {
  for (const Layer& layer : layers_) {
    const std::optional<std::int64_t> column = layout.column_of(kHeadLoad, layer.number);
    MOH_CHECK(column.has_value(), "layers with routed heads report their loads");
    update_balance_bias(layer.bias, {numbers, *column}, layer.groups, layer.rate, go);
  }
}

}  // namespace moh
