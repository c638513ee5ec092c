#pragma once

#include <cstdint>
#include <string>

namespace moh::cuda {

/// The first thing that kernels found wrong with their input. It lies in page-locked memory that the device
/// writes to, so that looking costs nothing: no kernel has to be waited for in order to know that an index
/// was out of range.
struct Fault {
  std::int32_t kind;  ///< 0: none
  std::int64_t value, place;
};

/// Where kernels write it; the address is valid on the device.
Fault* fault_on_device();
/// A kind that stands for `what` ("embedding: ids: expected 0 to 255 (rows of table)"); the same for the same
/// text.
std::int32_t fault_kind(const std::string& what);
/// Throws ValueError when kernels have found a fault, and forgets it. Called by synchronize().
void throw_fault();

}  // namespace moh::cuda
