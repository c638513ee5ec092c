#include "train/heads/analyze/routing_record.h"

#include "models/layers/head_routing.h"
#include "train/heads/analyze/head_analysis.h"

namespace moh {

void RoutingRecord::observe(const AttentionTrace& trace) {
  Layer& layer = layers.emplace_back();
  if (trace.choice == nullptr) return;
  layer.gates = trace.choice->gates.value().to(kCpu);
  layer.selected = selected_of(trace);
}

}  // namespace moh
