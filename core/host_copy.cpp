#include "core/host_copy.h"

#include "core/dry_run.h"

namespace moh {

HostCopy::HostCopy(const Tensor& tensor) : copy_(empty(tensor.shape(), tensor.dtype())) {
  if (tensor.device() == kCpu || dry_run()) {
    copy_.copy_from(tensor);
  } else if (tensor.bytes() > 0) {
    transfer_ = cuda::begin_copy_to_host(tensor.raw(), tensor.bytes());
  }
}

const Tensor& HostCopy::get() {
  if (transfer_ != nullptr) {
    transfer_->finish(copy_.raw());
    transfer_ = nullptr;
  }
  return copy_;
}

}  // namespace moh
