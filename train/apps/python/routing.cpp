#include "train/apps/python/routing.h"

#include <string>

#include "core/error.h"
#include "train/apps/python/arrays.h"
#include "train/heads/analyze/routing_record.h"

namespace moh::python {

namespace nb = nanobind;

nb::object routing_of(OpenModel& model, Forward forward) {
  RoutingRecord record;
  model.compute([&] { forward({.observer = &record}); });
  nb::list layers;
  for (const RoutingRecord::Layer& layer : record.layers) {
    if (layer.gates.defined())
      layers.append(nb::make_tuple(array_of(layer.gates), flags_of(layer.selected)));
    else
      layers.append(nb::none());
  }
  return layers;
}

Tensor layer_input_of(OpenModel& model, Forward forward, std::int64_t layer) {
  return model.compute([&] {
    const std::int64_t layers = model.layers();
    if (layer < 0 || layer >= layers)
      throw ValueError(
          error_message("features", "layer", "0 to " + std::to_string(layers - 1), std::to_string(layer)));
    LayerInputRecord record(layer);
    forward({.observer = &record});
    MOH_CHECK(record.x.defined(), "every attention layer is observed");
    return record.x.to(kCpu).to(DType::kFloat32);
  });
}

}  // namespace moh::python
