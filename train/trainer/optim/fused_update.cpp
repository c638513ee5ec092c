#include "train/trainer/optim/fused_update.h"

#include "autograd/profile.h"
#include "core/error.h"

namespace moh {

FusedUpdate::FusedUpdate(AdamW& optimizer) : optimizer_(optimizer), parameters_(optimizer.trained()) {
  optimizer.expect_each();
  updated_.resize(parameters_.size());
}

void FusedUpdate::hook_parameters() {
  hooked_ = true;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].on_gradient([this, i](Variable& leaf) {
      update(i, leaf.grad());
      leaf.zero_grad();
    });
  }
}

FusedUpdate::~FusedUpdate() {
  if (!hooked_) return;
  for (Variable& parameter : parameters_) {
    if (parameter.requires_grad()) parameter.on_gradient({});
  }
}

void FusedUpdate::begin(const Tensor& losses) {
  updated_.assign(parameters_.size(), false);
  optimizer_.begin_each(losses);
}

void FusedUpdate::update(std::size_t index, const Tensor& grad) {
  MOH_CHECK(!updated_[index], "a fused update has one backward pass");
  updated_[index] = true;
  // Values of other processes that no op has read may still be on their way, with this one's from before.
  static_cast<void>(parameters_[index].value());
  const ProfilePhaseScope phase(ProfilePhase::kOptimizer);
  optimizer_.update_one(index, grad);
}

Tensor FusedUpdate::finish() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (updated_[i]) continue;
    MOH_CHECK(hooked_, "sums are of all parameters, whether a pass reaches them or not");
    const Variable& parameter = parameters_[i];
    const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
    update(i, zeros(parameter.shape(), parameter.grad_dtype(), parameter.device()));
  }
  return optimizer_.finish_each();
}

}  // namespace moh
