#include "models/layers/linear.h"

#include "autograd/node.h"
#include "core/error.h"
#include "ops/elementwise/scale.h"
#include "ops/linalg/add_low_rank.h"
#include "ops/linalg/matmul.h"

namespace moh {

namespace {

/// y [..., sum of out], the maps' results without adapters side by side, with what these add: one
/// multiplication by all `down`, which lie one behind the other in memory.
Variable with_adapters(std::initializer_list<const Linear*> maps, const Variable& x, const Variable& y) {
  std::vector<Variable> downs;
  std::vector<LowRankTerm> ups;
  std::int64_t column = 0;
  double factor = 1;
  for (const Linear* map : maps) {
    if (const auto& adapter = map->adapter()) {
      MOH_CHECK(downs.empty() || factor == adapter->scale, "adapters that are packed have one scale");
      factor = adapter->scale;
      downs.push_back(adapter->down);
      ups.push_back({adapter->up, column});
    }
    column += map->weight().dim(0);
  }
  if (downs.empty()) return y;
  return add_low_rank(y, scale(packed_linear(x, downs), factor), ups);
}

}  // namespace

void Linear::add_adapter(const LowRankAdapter& adapter) {
  MOH_CHECK(!adapter_, "a map has one adapter");
  adapter_ = adapter;
  add_parameter("lora_A.weight", adapter.down);
  add_parameter("lora_B.weight", adapter.up);
}

Variable Linear::adapted(const Variable& x, const Variable& y) const {
  return with_adapters({this}, x, y);
}

Tensor Linear::whole_weight() const {
  if (!adapter_) return weight_.value();
  const NoGrad no_grad;
  Tensor whole = empty_like(weight_.value());
  whole.copy_from(weight_.value());
  matmul_into(whole, adapter_->up.value(), scale(adapter_->down, adapter_->scale).value(),
              /*accumulate=*/true);
  return whole;
}

std::vector<Variable> apply_each(std::initializer_list<const Linear*> maps, const Variable& x) {
  std::vector<Variable> weights, biases;
  for (const Linear* map : maps) {
    weights.push_back(map->weight());
    biases.push_back(map->bias());
  }
  std::vector<Variable> results = linears(x, weights, biases);
  std::size_t i = 0;
  for (const Linear* map : maps) {
    results[i] = map->adapted(x, results[i]);
    ++i;
  }
  return results;
}

Variable apply_packed(std::initializer_list<const Linear*> maps, const Variable& x) {
  std::vector<Variable> weights, biases;
  for (const Linear* map : maps) {
    weights.push_back(map->weight());
    if (map->bias().defined()) biases.push_back(map->bias());
  }
  return with_adapters(maps, x, packed_linear(x, weights, biases));
}

}  // namespace moh
