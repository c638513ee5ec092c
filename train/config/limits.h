#pragma once

namespace moh::config {

// Upper bounds keep products of sizes (elements, bytes) far from the end of 64 bits; no model comes near
// them.
inline constexpr double kMaxWidth = 1 << 20;
inline constexpr double kMaxLayers = 4096;
inline constexpr double kMaxLength = 1 << 24;
inline constexpr double kMaxVocab = 1 << 26;
inline constexpr double kMaxSteps = 1e12;

}  // namespace moh::config
