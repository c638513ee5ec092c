#include "core/storage.h"

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

Storage::~Storage() {
  if (owner_ != nullptr || data_ == nullptr) return;
  if (dry_) {
    dry_->release(data_, bytes_, device_, purpose_);
  } else if (device_ == kCpu) {
    CpuAllocator::instance().release(data_, bytes_, purpose_);
  } else {
    cuda::release(data_, bytes_, purpose_);
  }
}

}  // namespace moh
