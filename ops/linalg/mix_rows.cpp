#include "ops/linalg/mix_rows.h"

#include "ops/linalg/matmul.h"
#include "ops/op.h"

namespace moh {

Variable mix_rows(const Tensor& weights, const Variable& x) {
  Check check("mix_rows");
  check.floating("x", x).rank("x", x, 2);
  const Variable constant(weights);
  check.dtype("weights", constant, accumulate_dtype(x.dtype())).rank("weights", constant, 2);
  check.shape("weights", constant, {weights.dim(0), x.dim(0)}, "rows of x");
  return record("mix_rows", matmul(weights, x.value(), x.dtype()), {x}, [weights](const Tensor& dy) -> Grads {
    return {matmul(transposed(weights), dy, accumulate_dtype(dy.dtype()))};
  });
}

}  // namespace moh
