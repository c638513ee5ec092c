#include "train/io/element_blocks.h"

#include <algorithm>
#include <memory>

namespace moh {

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

void TensorFiller::append(std::span<const std::byte> block) {
  const std::int64_t count = static_cast<std::int64_t>(block.size() / dtype_size(flat_.dtype()));
  // The block lives on after the copy; nobody writes to what is borrowed.
  const auto borrowed = Storage::borrow(
      block.data(), block.size(), std::shared_ptr<const void>(std::shared_ptr<const void>(), block.data()));
  flat_.slice(done_, done_ + count).copy_from(Tensor(borrowed, 0, {count}, flat_.dtype()));
  done_ += count;
}

}  // namespace moh
