#pragma once

#include <functional>
#include <string>

#include "core/device.h"

namespace moh::test {

/// The GPU, real or simulated, open.
Device open_gpu();

/// Calls check(name) in each of the ways in which a device may go about a kernel. A simulated one copies
/// early or late, and takes threads in turn, at random, or a warp ahead of the others; a real one does as it
/// pleases.
void in_each_way(const std::function<void(const std::string&)>& check);

}  // namespace moh::test
