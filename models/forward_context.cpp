#include "models/forward_context.h"

#include <string>

#include "core/error.h"

namespace moh {

void require_per_layer(std::string_view model, const ForwardContext& context, std::int64_t layers) {
  const auto check = [&](std::string_view what, std::size_t size) {
    if (size == 0 || static_cast<std::int64_t>(size) == layers) return;
    throw ShapeError(error_message(model, what, "none, or one per layer (" + std::to_string(layers) + ")",
                                   std::to_string(size)));
  };
  check("head_scales", context.head_scales.size());
  check("forced_top", context.forced_top.size());
  check("balance_loads", context.balance_loads.size());
}

}  // namespace moh
