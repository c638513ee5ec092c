#include "models/layers/run_layer.h"

#include <vector>

#include "autograd/node.h"
#include "autograd/recompute.h"

namespace moh {

namespace {

/// The outputs of a layer as those of a recomputed segment: y, the balance loss and load if there are any,
/// the balance loss of experts if there are any.
std::vector<Variable> as_variables(const LayerOutput& output) {
  std::vector<Variable> variables = {output.y};
  if (output.routing && output.routing->balance.defined()) {
    variables.push_back(output.routing->balance);
    variables.emplace_back(output.routing->load);
  }
  if (output.expert_balance.defined()) variables.push_back(output.expert_balance);
  return variables;
}

LayerOutput from_variables(const std::vector<Variable>& outputs, const HeadRouter* router) {
  LayerOutput output{outputs[0], {}, {}};
  std::size_t next = 1;
  if (router != nullptr) {
    const bool balanced = router->options().router.top_k > 0;
    output.routing = summarize(balanced ? outputs[1] : Variable(), balanced ? outputs[2].value() : Tensor(),
                               router->options());
    if (balanced) next = 3;
  }
  if (next < outputs.size()) output.expert_balance = outputs[next];
  return output;
}

}  // namespace

LayerOutput run_layer(RecomputeLevel level, const Variable& x, const ForwardContext& context,
                      const HeadRouter* router, const std::function<LayerOutput(const Variable&)>& layer) {
  if (level == RecomputeLevel::kNone || !grad_enabled()) return layer(x);
  // All results of the layer are outputs of the segment, so that running it again has no side effects.
  const std::vector<Variable> outputs =
      recompute([layer](const std::vector<Variable>& in) { return as_variables(layer(in[0])); }, {x},
                context.generator);
  return from_variables(outputs, context.all_heads ? nullptr : router);
}

}  // namespace moh
