#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/function_ref.h"
#include "core/tensor.h"

namespace moh {

/// What of a tensor passes through memory at a time, on its way from or to a file.
inline constexpr std::size_t kStreamBlockBytes = 4 << 20;

/// Hands `bytes` bytes to `sink`, in order, block by block; `read` fills a block with those from `offset` on.
void stream_blocks(std::uint64_t bytes,
                   FunctionRef<void(std::uint64_t offset, std::span<std::byte> block)> read,
                   FunctionRef<void(std::span<const std::byte>)> sink);

/// The bytes of the elements of a tensor on the CPU.
std::span<const std::byte> bytes_of(const Tensor& tensor);

/// Hands all bytes of a tensor to `sink`, in order, block by block, whatever device it is on. Main memory
/// holds two blocks of what is on a GPU: the next one is copied while `sink` has the one before. Throws as
/// HostCopy::get does.
void stream_elements(const Tensor& tensor, FunctionRef<void(std::span<const std::byte>)> sink);

/// Copies elements that come block by block into a tensor on any device, from its first one on.
class TensorFiller {
 public:
  explicit TensorFiller(const Tensor& to) : flat_(to.reshape({to.numel()})) {}

  /// The elements that follow, of the tensor's dtype. The block may change when this returns.
  void append(std::span<const std::byte> block);

 private:
  Tensor flat_;
  std::int64_t done_ = 0;
};

}  // namespace moh
