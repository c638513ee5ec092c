#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#if defined(__AMX_BF16__) || defined(__AMXBF16__)  // the latter by older versions of Clang
#include "ops/cpu/amx/tiles.h"
#else
#include "ops/cpu/amx/plain_tiles.h"
#endif

namespace moh {
namespace {

/// The tiles of the instruction set that the file is compiled for, and whether they are instructions.
#if defined(__AMX_BF16__) || defined(__AMXBF16__)
using Tiles = AmxTiles;
constexpr bool kHasTiles = true;
#else
using Tiles = PlainTiles;
constexpr bool kHasTiles = false;
#endif

}  // namespace
}  // namespace moh
