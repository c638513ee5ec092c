#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// V rows of width D in the table, N ids.
struct EmbeddingSizes {
  std::int64_t num_rows = 0;
  std::int64_t width = 0;
  std::int64_t num_ids = 0;
};

/// table [V, D]; dtable [V, D], not rounded to T; ids [N], all in [0, V); y, dy [N, D]. Outputs are
/// overwritten.
template <class Backend, class T>
struct EmbeddingKernels {
  static void forward(const T* table, const std::int64_t* ids, T* y, EmbeddingSizes sizes);
  static void backward(const T* dy, const std::int64_t* ids, Acc<T>* dtable, EmbeddingSizes sizes);
};

}  // namespace moh
