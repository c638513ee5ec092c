#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/function_ref.h"
#include "core/tensor.h"

namespace moh {

/// Block size for reading and writing tensors.
inline constexpr std::size_t kStreamBlockBytes = 4 << 20;

/// Passes `bytes` bytes to `sink`, in order, block by block; `read` fills a block with those from `offset`
/// on.
void stream_blocks(std::uint64_t bytes,
                   FunctionRef<void(std::uint64_t offset, std::span<std::byte> block)> read,
                   FunctionRef<void(std::span<const std::byte>)> sink);

/// The bytes of the elements of a tensor on the CPU.
std::span<const std::byte> bytes_of(const Tensor& tensor);

/// Passes all bytes of a tensor on any device to `sink`, in order, block by block. For a GPU, two blocks are
/// in host memory: the next one is copied while `sink` processes the last. Throws as HostCopy::get does.
void stream_elements(const Tensor& tensor, FunctionRef<void(std::span<const std::byte>)> sink);

/// Fills a tensor on any device with elements that are passed block by block, in order.
class TensorFiller {
 public:
  explicit TensorFiller(const Tensor& to) : flat_(to.reshape({to.numel()})) {}

  /// Appends elements of the tensor's dtype. The block may be reused when this returns.
  void append(std::span<const std::byte> block);

 private:
  Tensor flat_;
  std::int64_t done_ = 0;
};

}  // namespace moh
