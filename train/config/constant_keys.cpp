#include "train/config/constant_keys.h"

#include <algorithm>
#include <string_view>

#include "train/config/number_text.h"

namespace moh::config {

namespace {

struct ConstantKey {
  std::string_view key;
  double value;
};

constexpr ConstantKey kConstantKeys[] = {
    {"init.moh.router_spread", 0.1},
    {"init.moh.calibration.ridge", 0.001},
    {"init.moh.calibration.mask_steps", 200},
    {"init.moh.calibration.mask_learning_rate", 0.1},
    {"model.transnext.expert_balance_weight", 0.01},
};

void drop(Value& section, std::string_view path, double value) {
  const std::size_t dot = path.find('.');
  const auto entry = std::ranges::find(section.entries, path.substr(0, dot), &Entry::key);
  if (entry == section.entries.end()) return;
  if (dot != std::string_view::npos) return drop(entry->value, path.substr(dot + 1), value);
  if (entry->value.kind == Value::Kind::kScalar && parse_number(entry->value.text) == value)
    section.entries.erase(entry);
}

}  // namespace

void drop_constant_keys(Value& layer) {
  for (const auto& [key, value] : kConstantKeys) drop(layer, key, value);
}

}  // namespace moh::config
