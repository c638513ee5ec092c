#include "core/storage.h"

#include <utility>

#include "core/cuda/backend.h"
#include "core/dry_run.h"
#include "core/error.h"

namespace moh {

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, Device device, MemoryPurpose purpose) {
  std::shared_ptr<Storage> storage(new Storage);
  if (const DryRunScope* dry = DryRunScope::current()) storage->dry_ = dry->memory();
  void* const block = storage->dry_    ? storage->dry_->allocate(bytes, device, purpose)
                      : device == kCpu ? CpuAllocator::instance().allocate(bytes, purpose)
                                       : cuda::allocate(bytes, purpose);
  storage->data_ = static_cast<std::byte*>(block);
  storage->bytes_ = bytes;
  storage->device_ = device;
  storage->purpose_ = purpose;
  return storage;
}

std::shared_ptr<Storage> Storage::borrow(const void* data, std::size_t bytes,
                                         std::shared_ptr<const void> owner) {
  MOH_CHECK(owner != nullptr, "borrowed memory needs an owner");
  std::shared_ptr<Storage> storage(new Storage);
  storage->data_ = static_cast<std::byte*>(const_cast<void*>(data));
  storage->bytes_ = bytes;
  storage->owner_ = std::move(owner);
  return storage;
}

void Storage::set_purpose(MemoryPurpose purpose) {
  if (owner_ != nullptr || purpose == purpose_) return;
  if (dry_) {
    dry_->recount(bytes_, device_, purpose_, purpose);
  } else if (device_ == kCpu) {
    CpuAllocator::instance().recount(bytes_, purpose_, purpose);
  } else {
    cuda::recount(bytes_, purpose_, purpose);
  }
  purpose_ = purpose;
}

void Storage::release_until_read(std::function<std::shared_ptr<Storage>()> remake) {
  MOH_CHECK(owner_ == nullptr && !remake_, "only memory of its own is released, and once");
  free_block();
  data_ = nullptr;
  remake_ = std::move(remake);
}

void Storage::restore() {
  const MemoryPurposeScope purpose(purpose_);
  const std::shared_ptr<Storage> made = std::exchange(remake_, {})();
  MOH_CHECK(
      made.use_count() == 1 && made->owner_ == nullptr && made->bytes_ == bytes_ && made->device_ == device_,
      "what is remade is of the same size and device, and nobody else's");
  made->set_purpose(purpose_);
  std::swap(data_, made->data_);
  std::swap(dry_, made->dry_);
}

void Storage::free_block() noexcept {
  if (owner_ != nullptr || data_ == nullptr) return;
  if (dry_) {
    dry_->release(data_, bytes_, device_, purpose_);
  } else if (device_ == kCpu) {
    CpuAllocator::instance().release(data_, bytes_, purpose_);
  } else {
    cuda::release(data_, bytes_, purpose_);
  }
}

Storage::~Storage() {
  free_block();
}

}  // namespace moh
