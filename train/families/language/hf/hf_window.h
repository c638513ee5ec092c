#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/llm/llama_config.h"
#include "train/weights/hf/config_json.h"

namespace moh {

/// The layers to which a model's class gives its window.
enum class HfWindows {
  kNone,    ///< LLaMA: no window is known
  kAll,     ///< Mistral: every layer, 4096 tokens unless `sliding_window` says otherwise
  kLayers,  ///< Qwen: with `use_sliding_window`, those that `layer_types` lists, or from `max_window_layers`
            ///< on
  kMoh,     ///< moh's own exports: `sliding_windows`, one number or one per layer
};

/// The windows of a config.json, for a model whose layers and max_positions are known. A window that is no
/// shorter than the context hides nothing, and is none. Throws CheckpointError, and ConfigError for what moh
/// does not compute.
PerLayer read_hf_windows(const ConfigJson& json, HfWindows windows, const LlamaConfig& model);

/// Windows as Mistral and Qwen have them: of one size, in layers from the first one with a window on.
struct HfWindow {
  std::int64_t size = 0, first_layer = 0;
};
/// Nothing for windows of other forms; size 0 where there is no window.
std::optional<HfWindow> as_hf_window(const LlamaConfig& model);

inline constexpr std::string_view kFullLayer = "full_attention", kWindowLayer = "sliding_attention";

}  // namespace moh
