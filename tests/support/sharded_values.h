#pragma once

#include <memory>
#include <vector>

#include "autograd/between_ops.h"
#include "train/trainer/run/replicas.h"
#include "train/trainer/run/sharded_parameters.h"

namespace moh::test {

/// shard_parameters() of a model that has its values.
inline std::shared_ptr<ShardedParameters> shard_values(const Model& model, const RunConfig& config,
                                                       Communicator& processes) {
  if (!shards_parameters(config, processes)) return nullptr;
  const std::vector<NamedParameter> parameters = model.parameters();
  std::vector<Tensor> values;
  for (const NamedParameter& p : parameters) values.push_back(p.variable.value().clone());
  std::shared_ptr<ShardedParameters> sharded = shard_parameters(model, config, processes);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].variable.value().copy_from(values[i]);
    BetweenOps::reached();
  }
  sharded->end_filling();
  return sharded;
}

}  // namespace moh::test
