#include "models/layers/residual_stream.h"

#include "ops/dropout/drop_path.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/gate_residual.h"

namespace moh {

Variable ResidualStream::sum() const {
  if (!branch.value.defined()) return x;
  if (branch.modulation.defined()) return gate_residual(x, branch.value, branch.modulation, branch.gate);
  if (branch.drop_rate > 0) return add_drop_path(x, branch.value, branch.drop_rate, branch.key);
  return add(x, branch.value);
}

}  // namespace moh
