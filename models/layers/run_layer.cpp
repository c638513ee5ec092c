#include "models/layers/run_layer.h"

#include <memory>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "autograd/recompute.h"

namespace moh {

namespace {

/// The parts of a layer's output besides tensors, and which of its tensors are defined.
struct Form {
  bool routed = false, balance = false, load = false, z_loss = false, heads_each = false, top_k = false,
       statistics = false, two_stage = false, refuses = false, balance_load = false, expert_balance = false;
  std::int64_t computed_heads = 0, heads = 0;
};

Form form_of(const LayerOutput& output) {
  Form form{.routed = output.routing.has_value(), .expert_balance = output.expert_balance.defined()};
  if (!output.routing) return form;
  const LayerRouting& routing = *output.routing;
  form.balance = routing.balance.defined();
  form.load = routing.load.defined();
  form.z_loss = routing.z_loss.defined();
  form.heads_each = routing.heads_each.defined();
  form.computed_heads = routing.computed_heads;
  form.heads = routing.heads;
  form.top_k = routing.top_k.defined();
  form.statistics = routing.statistics.defined();
  form.two_stage = routing.two_stage;
  form.refuses = routing.refuses;
  form.balance_load = routing.balance_load.defined();
  return form;
}

/// The outputs of a layer as those of a recomputed segment: y, then what else is defined.
std::vector<Variable> as_variables(const LayerOutput& output, const Form& form) {
  std::vector<Variable> variables = {output.y};
  if (form.balance) variables.push_back(output.routing->balance);
  if (form.load) variables.emplace_back(output.routing->load);
  if (form.z_loss) variables.push_back(output.routing->z_loss);
  if (form.heads_each) variables.emplace_back(output.routing->heads_each);
  if (form.top_k) variables.emplace_back(output.routing->top_k);
  if (form.statistics) variables.emplace_back(output.routing->statistics);
  if (form.balance_load) variables.emplace_back(output.routing->balance_load);
  if (form.expert_balance) variables.push_back(output.expert_balance);
  return variables;
}

LayerOutput from_variables(const std::vector<Variable>& outputs, const Form& form) {
  auto next = outputs.begin();
  LayerOutput output{*next++, {}, {}};
  if (form.routed) {
    LayerRouting& routing = output.routing.emplace();
    if (form.balance) routing.balance = *next++;
    if (form.load) routing.load = (next++)->value();
    if (form.z_loss) routing.z_loss = *next++;
    if (form.heads_each) routing.heads_each = (next++)->value();
    if (form.top_k) routing.top_k = (next++)->value();
    if (form.statistics) routing.statistics = (next++)->value();
    if (form.balance_load) routing.balance_load = (next++)->value();
    routing.two_stage = form.two_stage;
    routing.refuses = form.refuses;
    routing.computed_heads = form.computed_heads;
    routing.heads = form.heads;
  }
  if (form.expert_balance) output.expert_balance = *next;
  return output;
}

}  // namespace

LayerOutput run_layer(RecomputeLevel level, const std::vector<Variable>& inputs,
                      const ForwardContext& context,
                      const std::function<LayerOutput(const std::vector<Variable>&)>& layer) {
  if (level != RecomputeLevel::kLayer || !grad_enabled()) return layer(inputs);
  // All results of the layer are outputs of the segment, so that running it again has no side effects.
  const auto form = std::make_shared<Form>();
  const std::vector<Variable> outputs = recompute(
      [layer, form](const std::vector<Variable>& in) {
        const LayerOutput output = layer(in);
        *form = form_of(output);
        return as_variables(output, *form);
      },
      inputs, context.generator);
  return from_variables(outputs, *form);
}

LayerOutput run_layer(RecomputeLevel level, const Variable& x, const ForwardContext& context,
                      const std::function<LayerOutput(const Variable&)>& layer) {
  return run_layer(level, std::vector<Variable>{x}, context,
                   [layer](const std::vector<Variable>& in) { return layer(in[0]); });
}

StreamOutput run_layer(
    RecomputeLevel level, ResidualStream stream, const Variable& condition, const ForwardContext& context,
    const std::function<StreamOutput(ResidualStream stream, const Variable& condition)>& layer) {
  if (level != RecomputeLevel::kLayer) return layer(std::move(stream), condition);
  LayerOutput result =
      run_layer(level, std::vector<Variable>{std::exchange(stream, {}).sum(), condition}, context,
                [layer](const std::vector<Variable>& in) -> LayerOutput {
                  StreamOutput output = layer({in[0]}, in[1]);
                  return {output.stream.sum(), std::move(output.routing), std::move(output.expert_balance)};
                });
  return {{std::move(result.y)}, std::move(result.routing), std::move(result.expert_balance)};
}

}  // namespace moh
