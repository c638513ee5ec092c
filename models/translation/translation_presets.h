#pragma once

#include <span>
#include <string_view>

#include "models/translation/translation_config.h"

namespace moh {

/// A published model, or a baseline of one, by name.
struct TranslationPreset {
  std::string_view name;
  TranslationConfig config;
  std::string_view origin;  ///< source of the sizes
};

/// transformer_base, transformer_big, moa_base and moh_base_75, in this order.
std::span<const TranslationPreset> translation_presets();

}  // namespace moh
