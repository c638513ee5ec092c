#pragma once

#include <cstddef>
#include <thread>

namespace moh {

/// Number of processors that the process may use, as its affinity was when this was first called.
int usable_processors();

/// Keeps `thread`, the index-th of those that compute together, on a processor of its own where OMP_PROC_BIND
/// is set and not `false`: processors of different cores come first, in the order of their numbers; the index
/// wraps around. Without OMP_PROC_BIND the operating system may move it. Throws Error where the system
/// refuses it.
void bind_if_asked(std::thread& thread, std::size_t index);

}  // namespace moh
