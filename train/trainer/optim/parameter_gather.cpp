#include "train/trainer/optim/parameter_gather.h"

namespace moh {

void ParameterGather::mark_stale() {
  if (!optimizer_.shards()->divided()) return;
  mark_current();
  gather_.emplace(optimizer_.shards(), optimizer_.own_values(), optimizer_.trained());
}

void ParameterGather::mark_current() {
  if (gather_) gather_->forget();
  gather_.reset();
}

void ParameterGather::start() {
  if (gather_) gather_->start();
}

void ParameterGather::finish() {
  if (gather_) gather_->finish();
}

}  // namespace moh
