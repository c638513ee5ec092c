#include "ops/moh/router_z_loss.h"

#include "ops/moh/router_z_loss_kernels.h"
#include "ops/op.h"

namespace moh {

Variable router_z_loss(const Variable& logits) {
  Check("router_z_loss")
      .floating("logits", logits)
      .rank("logits", logits, 2)
      .require(logits.dim(1) >= 1, "logits", "a logit or more for each token", to_string(logits.shape()));
  const Rows rows = rows_of(logits);
  const Tensor& z = logits.value();
  const DType wide = accumulate_dtype(z.dtype());
  const Tensor log_sums = empty({rows.count}, wide, z.device()), loss = empty({}, wide, z.device());
  run_kernel("router_z_loss", z, [&]<class Backend, class T>() {
    RouterZLossKernels<Backend, T>::forward(z.data<T>(), log_sums.data<Acc<T>>(), loss.data<Acc<T>>(), rows);
  });
  return record("router_z_loss", loss, {logits}, [z, log_sums, rows](const Tensor& dloss) -> Grads {
    const Tensor dz = empty_like(z);
    run_kernel("router_z_loss", z, [&]<class Backend, class T>() {
      RouterZLossKernels<Backend, T>::backward(dloss.data<Acc<T>>(), z.data<T>(), log_sums.data<Acc<T>>(),
                                               dz.data<T>(), rows);
    });
    return {dz};
  });
}

}  // namespace moh
