#include "train/config/model_agreement.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "train/config/run_fields.h"
#include "train/config/write_fields.h"

namespace moh {

namespace {

constexpr std::array<std::string_view, 7> kFree = {"model.preset",    "model.max_positions", "model.dropout",
                                                   "model.init_std",  "model.recompute",     "model.moh",
                                                   "model.vocab_size"};

void compare(const config::Section& ours, const config::Section& source, const std::string& prefix,
             std::vector<ModelDisagreement>& found) {
  const auto is_free = [](const std::string& key) { return std::ranges::find(kFree, key) != kFree.end(); };
  for (std::size_t i = 0; i < ours.fields().size(); ++i) {
    const std::string key = config::join_key(prefix, ours.fields()[i].name);
    const std::string expected = config::value_yaml(source.fields()[i]);
    const std::string value = config::value_yaml(ours.fields()[i]);
    if (!is_free(key) && value != expected) found.push_back({key, expected, value});
  }
  for (std::size_t i = 0; i < ours.sections().size(); ++i) {
    const std::string key = config::join_key(prefix, ours.sections()[i].name());
    if (!is_free(key)) compare(ours.sections()[i], source.sections()[i], key, found);
  }
}

/// Zeros that stand for other fields replaced by what they stand for.
ModelConfig spelt_out(ModelConfig model) {
  model.kv_heads = model.num_kv_heads();
  model.head_dim = model.head_width();
  return model;
}

}  // namespace

std::vector<ModelDisagreement> disagreements(ModelConfig model, ModelConfig source) {
  model = spelt_out(model);
  source = spelt_out(source);
  std::vector<ModelDisagreement> found;
  compare(config::describe(model, {}), config::describe(source, {}), "model", found);
  if (model.vocab_size < source.vocab_size)
    found.push_back({"model.vocab_size", "at least " + std::to_string(source.vocab_size),
                     std::to_string(model.vocab_size)});
  return found;
}

}  // namespace moh
