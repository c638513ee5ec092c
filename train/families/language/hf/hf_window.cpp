#include "train/families/language/hf/hf_window.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "train/config/fields.h"

namespace moh {

namespace {

using config::kMaxLayers;
using config::kMaxLength;

constexpr std::string_view kWindow = "sliding_window", kTypes = "layer_types", kOwn = "sliding_windows";

/// The window of the layers that have one; nothing where none has.
std::optional<std::int64_t> window_of(const ConfigJson& json, HfWindows windows) {
  constexpr std::int64_t kDefault = 4096;
  if (windows == HfWindows::kNone || windows == HfWindows::kMoh) {
    if (json.has(kWindow)) json.unsupported(kWindow, "none", json.shown(kWindow));
    return std::nullopt;
  }
  if (windows == HfWindows::kLayers && !json.truth_or("use_sliding_window", false)) return std::nullopt;
  if (json.is_null(kWindow)) return std::nullopt;
  return json.has(kWindow) ? json.integer(kWindow, 1, kMaxLength) : kDefault;
}

/// The first layer with a window.
std::int64_t first_layer(const ConfigJson& json, HfWindows windows) {
  constexpr std::int64_t kDefault = 28;
  constexpr std::string_view kKey = "max_window_layers";
  if (windows == HfWindows::kAll) return 0;
  return json.has(kKey) ? json.integer(kKey, 0, kMaxLayers) : kDefault;
}

std::vector<std::string> types_of_layers(const ConfigJson& json, const LlamaConfig& model) {
  std::vector<std::string> types = json.texts(kTypes);
  if (std::ssize(types) != model.layers) {
    json.damaged(kTypes, std::to_string(model.layers) + " types, one per layer",
                 std::to_string(types.size()));
  }
  return types;
}

/// The layers that have a window, if the model has one.
std::vector<bool> layers_with_window(const ConfigJson& json, HfWindows windows, bool exists,
                                     const LlamaConfig& model) {
  std::vector<bool> has(static_cast<std::size_t>(model.layers), false);
  const std::int64_t first = exists ? std::min(first_layer(json, windows), model.layers) : model.layers;
  std::fill(has.begin() + first, has.end(), true);
  if (!json.has(kTypes)) return has;
  const std::vector<std::string> types = types_of_layers(json, model);
  // The class of Mistral does not read the list.
  const bool all = exists && windows == HfWindows::kAll;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool is_window = types[i] == kWindowLayer, is_known = is_window || types[i] == kFullLayer;
    if (!is_known || (is_window && !exists) || (all && !is_window)) {
      json.unsupported(kTypes,
                       all      ? "sliding_attention for all layers"
                       : exists ? "full_attention or sliding_attention"
                                : "full_attention for all layers",
                       json.shown(kTypes));
    }
    has[i] = is_window;
  }
  return has;
}

/// One number where all layers have it.
PerLayer joined(std::vector<std::int64_t> each) {
  const bool same = std::ranges::all_of(each, [&](std::int64_t window) { return window == each[0]; });
  return same ? PerLayer(each[0]) : PerLayer(std::move(each));
}

PerLayer own_windows(const ConfigJson& json, const LlamaConfig& model) {
  if (!json.has(kOwn)) return {};
  if (!json.is_list(kOwn)) return json.integer(kOwn, 0, kMaxLength);
  std::vector<std::int64_t> each = json.integers(kOwn, 0, kMaxLength);
  if (std::ssize(each) != model.layers)
    json.damaged(kOwn, std::to_string(model.layers) + " windows, one per layer", std::to_string(each.size()));
  return joined(std::move(each));
}

}  // namespace

PerLayer read_hf_windows(const ConfigJson& json, HfWindows windows, const LlamaConfig& model) {
  const std::optional<std::int64_t> window = window_of(json, windows);
  const std::vector<bool> has = layers_with_window(json, windows, window.has_value(), model);
  if (windows == HfWindows::kMoh) return own_windows(json, model);
  if (!window || *window >= model.max_positions) return {};
  std::vector<std::int64_t> each;
  for (const bool one : has) each.push_back(one ? *window : 0);
  return joined(std::move(each));
}

std::optional<HfWindow> as_hf_window(const LlamaConfig& model) {
  HfWindow window{0, model.layers};
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::int64_t size = model.sliding_window.at(layer);
    if (window.size == 0 && size > 0) window = {size, layer};
    if (size != window.size) return std::nullopt;
  }
  return window;
}

}  // namespace moh
