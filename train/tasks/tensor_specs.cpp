#include "train/tasks/tensor_specs.h"

#include "core/dry_run.h"

namespace moh {

std::vector<TensorSpec> tensor_specs(const Family& family, const FamilyConfig& config, DType dtype) {
  const DryRunScope no_memory;
  const std::unique_ptr<Model> model = family.make_model(config, {dtype, kCpu});
  std::vector<TensorSpec> specs;
  for (const NamedParameter& p : model->parameters())
    specs.push_back({p.name, p.variable.shape(), p.variable.dtype()});
  return specs;
}

}  // namespace moh
