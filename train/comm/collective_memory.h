#pragma once

#include <vector>

#include "core/tensor.h"

namespace moh {

/// Memory that collectives read and write. On a GPU they may be captured: then a graph keeps its address, and
/// a library has it registered until it has let go of the graph (core/cuda/nccl_group.h). So it lasts as long
/// as this object, also where more was needed later.
class CollectiveMemory {
 public:
  /// A tensor in it, whose contents are those of its last use: the same memory each time, unless that is too
  /// small, or of another type. Only tensors of different uses of this object may share it.
  Tensor of(const Shape& shape, DType dtype, Device device);

 private:
  Tensor kept_;  // [elements]
  std::vector<Tensor> outgrown_;
};

}  // namespace moh
