#include "core/storage.h"

#include "core/error.h"

namespace moh {

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, Device device, MemoryPurpose purpose) {
  if (device.type != Device::Type::kCpu) {
    throw DeviceError(error_message("storage", "device", "cpu", device_name(device)));
  }
  std::shared_ptr<Storage> storage(new Storage);
  storage->data_ = static_cast<std::byte*>(CpuAllocator::instance().allocate(bytes, purpose));
  storage->bytes_ = bytes;
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
  CpuAllocator::instance().recount(bytes_, purpose_, purpose);
  purpose_ = purpose;
}

Storage::~Storage() {
  if (owner_ == nullptr && data_ != nullptr) CpuAllocator::instance().release(data_, bytes_, purpose_);
}

}  // namespace moh
