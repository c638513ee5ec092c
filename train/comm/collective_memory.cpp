#include "train/comm/collective_memory.h"

#include "core/cuda/queue.h"

namespace moh {

Tensor CollectiveMemory::of(const Shape& shape, DType dtype, Device device) {
  const std::int64_t elements = shape.numel();
  if (!kept_.defined() || kept_.dtype() != dtype || kept_.numel() < elements) {
    if (kept_.defined()) outgrown_.push_back(kept_);
    const cuda::PersistentMemoryScope persistent;
    const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
    kept_ = empty({elements}, dtype, device);
  }
  return kept_.slice(0, elements).reshape(shape);
}

}  // namespace moh
