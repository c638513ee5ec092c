#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace moh::cuda {

/// A fault that a kernel found in its input, such as an index out of range. It is in page-locked memory,
/// which the device writes and the host reads, so that checking it needs no copy from the device. Threads
/// write it without regard to each other: of several faults one is reported, whose numbers may be from
/// different ones of the same kernel, and what a kernel finds while the host clears the last may go
/// unreported. None of it reaches a result, as what is out of range is replaced.
struct Fault {
  std::int32_t kind;          ///< 0: none
  std::int64_t value, place;  ///< the value found, and the number of its element
};

/// The device address at which kernels write it.
Fault* fault_on_device();
/// The number that stands for the message `what` ("embedding: ids: expected 0 to 255 (rows of table)"); equal
/// texts get equal numbers.
std::int32_t fault_kind(const std::string& what);
/// Throws ValueError when a kernel has found a fault, and clears it. Called after each wait of the host for
/// the device, before anybody sees a result.
void throw_fault();
/// `check`, which may throw, is called at those places, too, from now on; empty: nothing is.
void check_after_waits(std::function<void()> check);

}  // namespace moh::cuda
