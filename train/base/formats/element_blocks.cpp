#include "train/base/formats/element_blocks.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/host_copy.h"

namespace moh {

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  MOH_CHECK(tensor.device() == kCpu, "elements that the host can read");
  return {static_cast<const std::byte*>(tensor.raw()), tensor.bytes()};
}

void stream_blocks(std::uint64_t bytes,
                   FunctionRef<void(std::uint64_t offset, std::span<std::byte> block)> read,
                   FunctionRef<void(std::span<const std::byte>)> sink) {
  const std::size_t size = std::min<std::uint64_t>(kStreamBlockBytes, bytes);
  const auto block = std::make_unique_for_overwrite<std::byte[]>(size);
  for (std::uint64_t offset = 0; offset < bytes; offset += size) {
    const std::span<std::byte> part(block.get(), std::min<std::uint64_t>(size, bytes - offset));
    read(offset, part);
    sink(part);
  }
}

void stream_elements(const Tensor& tensor, FunctionRef<void(std::span<const std::byte>)> sink) {
  const std::int64_t count = tensor.numel();
  const auto per_block = static_cast<std::int64_t>(kStreamBlockBytes / dtype_size(tensor.dtype()));
  const Tensor flat = tensor.reshape({count});
  const auto block_from = [&](std::int64_t begin) {
    return flat.slice(begin, std::min(begin + per_block, count));
  };
  if (tensor.device() == kCpu) {
    for (std::int64_t begin = 0; begin < count; begin += per_block) sink(bytes_of(block_from(begin)));
    return;
  }
  std::optional<HostCopy> next;
  if (count > 0) next.emplace(block_from(0));
  for (std::int64_t begin = 0; begin < count; begin += per_block) {
    const Tensor block = next->get();
    next.reset();
    if (begin + per_block < count) next.emplace(block_from(begin + per_block));
    sink(bytes_of(block));
  }
}

void TensorFiller::append(std::span<const std::byte> block) {
  const std::int64_t count = static_cast<std::int64_t>(block.size() / dtype_size(flat_.dtype()));
  // The borrowed block outlives the copy and is not written to.
  const auto borrowed = Storage::borrow(
      block.data(), block.size(), std::shared_ptr<const void>(std::shared_ptr<const void>(), block.data()));
  flat_.slice(done_, done_ + count).copy_from(Tensor(borrowed, 0, {count}, flat_.dtype()));
  done_ += count;
}

}  // namespace moh
