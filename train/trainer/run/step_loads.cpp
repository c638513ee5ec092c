#include "train/trainer/run/step_loads.h"

#include <algorithm>

#include "core/error.h"
#include "ops/elementwise/scale.h"

namespace moh {

void StepLoads::begin(std::int64_t micro_batches) {
  share_ = 1.0 / static_cast<double>(micro_batches);
  if (all_.defined()) all_.fill(0.0);
}

void StepLoads::add(std::span<const Tensor> loads) {
  if (!fits(loads)) allocate(loads);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].defined()) of_layers_[i].add(scale(Variable(loads[i]), share_).value());
  }
}

bool StepLoads::fits(std::span<const Tensor> loads) const {
  const auto numel = [](const Tensor& tensor) { return tensor.defined() ? tensor.numel() : 0; };
  return all_.defined() && std::ranges::equal(loads, of_layers_, {}, numel, numel);
}

void StepLoads::allocate(std::span<const Tensor> loads) {
  std::int64_t count = 0;
  const Tensor* like = nullptr;
  for (const Tensor& load : loads) {
    if (!load.defined()) continue;
    count += load.numel();
    like = &load;
  }
  MOH_CHECK(like != nullptr, "a model whose loads are counted has routed heads");
  all_ = zeros({count}, like->dtype(), like->device());
  of_layers_.clear();
  std::int64_t begin = 0;
  for (const Tensor& load : loads) {
    const std::int64_t end = begin + (load.defined() ? load.numel() : 0);
    of_layers_.push_back(load.defined() ? all_.slice(begin, end) : Tensor());
    begin = end;
  }
}

}  // namespace moh
