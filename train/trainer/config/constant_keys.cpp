#include "train/trainer/config/constant_keys.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "train/config/number_text.h"

namespace moh::config {

namespace {

struct ConstantKey {
  std::string_view key, value;
};

constexpr ConstantKey kConstantKeys[] = {
    {"init.moh.router_spread", "0.1"},
    {"init.moh.calibration.ridge", "0.001"},
    {"init.moh.calibration.mask_steps", "200"},
    {"init.moh.calibration.mask_learning_rate", "0.1"},
    {"model.transnext.expert_balance_weight", "0.01"},
    {"data.bin_dtype", "none"},
};

bool is_value(const Value& found, std::string_view constant) {
  if (found.kind != Value::Kind::kScalar) return false;
  const std::optional<double> number = parse_number(constant);
  return number ? parse_number(found.text) == number : found.text == constant;
}

void drop(Value& section, std::string_view path, std::string_view constant) {
  const std::size_t dot = path.find('.');
  const auto entry = std::ranges::find(section.entries, path.substr(0, dot), &Entry::key);
  if (entry == section.entries.end()) return;
  if (dot != std::string_view::npos) return drop(entry->value, path.substr(dot + 1), constant);
  if (is_value(entry->value, constant)) section.entries.erase(entry);
}

}  // namespace

void drop_constant_keys(Value& layer) {
  for (const auto& [key, value] : kConstantKeys) drop(layer, key, value);
}

}  // namespace moh::config
