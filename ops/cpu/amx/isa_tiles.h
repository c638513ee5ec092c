#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include <type_traits>

#include "core/cpu_isa.h"
#if defined(__AMX_BF16__) || defined(__AMXBF16__)  // the latter by older versions of Clang
#include "ops/cpu/amx/tiles.h"
#else
#include "ops/cpu/amx/plain_tiles.h"
#endif

namespace moh {
namespace {

/// The tiles of the instruction set that the file is compiled for.
#if defined(__AMX_BF16__) || defined(__AMXBF16__)
using Tiles = AmxTiles;
#else
using Tiles = PlainTiles;
static_assert(std::is_same_v<cpu::MOH_ISA, cpu::AmxPlain>, "the others have instructions");
#endif

}  // namespace
}  // namespace moh
