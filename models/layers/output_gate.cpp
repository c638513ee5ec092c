#include "models/layers/output_gate.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "autograd/node.h"
#include "core/error.h"
#include "ops/elementwise/scale.h"
#include "ops/moh/sigmoid_gate.h"

namespace moh {

namespace {

constexpr std::string_view kName = "output_gate";

}  // namespace

OutputGate::OutputGate(AttentionGate gate, std::int64_t width, std::int64_t heads, std::int64_t head_dim,
                       Placement placement) {
  if (gate == AttentionGate::kNone) return;
  map_.emplace(width, gate == AttentionGate::kHead ? heads : heads * head_dim, /*bias=*/false, placement);
  add_child(std::string(kName), *map_);
}

Variable OutputGate::operator()(const Variable& x, const Variable& heads) const {
  return map_ ? sigmoid_gate(heads, (*map_)(x)) : heads;
}

std::vector<GatedProjection> gated_projections(const Model& model) {
  const std::vector<NamedParameter> all = model.parameters();
  const std::string suffix = "." + std::string(kName) + ".weight";
  std::vector<GatedProjection> found;
  for (const NamedParameter& gate : all) {
    if (!gate.name.ends_with(suffix)) continue;
    const std::string layer = gate.name.substr(0, gate.name.size() - suffix.size());
    const auto projection = std::ranges::find_if(all, [&](const NamedParameter& p) {
      return p.name == layer + ".o_proj.weight" || p.name == layer + ".proj.weight";
    });
    MOH_CHECK(projection != all.end(), "a gated layer has an output projection");
    found.push_back({gate, *projection});
  }
  return found;
}

void start_gates(const std::vector<GatedProjection>& gates) {
  const NoGrad no_grad;
  for (const auto& [gate, projection] : gates) {
    gate.variable.value().fill(0.0);
    const Tensor weight = projection.variable.value();
    weight.copy_from(scale(Variable(weight), 2.0).value());
  }
}

AttentionGate gate_of_rows(std::int64_t rows, std::int64_t width) {
  if (rows == 0) return AttentionGate::kNone;
  return rows == width ? AttentionGate::kElement : AttentionGate::kHead;
}

}  // namespace moh
