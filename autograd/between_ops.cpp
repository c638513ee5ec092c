#include "autograd/between_ops.h"

#include <utility>

#include "core/remaking.h"

namespace moh {

namespace {
thread_local BetweenOps* current = nullptr;
}  // namespace

BetweenOps::BetweenOps(std::function<void()> work)
    : work_(std::move(work)), outer_(std::exchange(current, this)) {}

BetweenOps::~BetweenOps() {
  current = outer_;
}

void BetweenOps::reached() {
  if (remaking()) return;
  for (const BetweenOps* scope = current; scope != nullptr; scope = scope->outer_) scope->work_();
}

}  // namespace moh
