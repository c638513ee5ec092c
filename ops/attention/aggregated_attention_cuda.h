#pragma once

#include <cstdint>

#include "ops/attention/aggregated_attention_kernels.h"

namespace moh {

/// Aggregated attention on a GPU. args.lists is in device memory, so the host knows only an upper bound for
/// the number of rows of all lists: `num_rows`. args.places is not used. Workspace: aggregated::Division.
template <class T>
struct CudaAggregated {
  /// out of the rows of the lists, and zeros for all other pairs.
  static void forward(const AggregatedForward<T>& args, std::int64_t num_rows);
  /// All gradients; those of the parameters in `sums`. args.chunks and args.partials are not used.
  static void backward(const AggregatedBackward<T>& args, std::int64_t num_rows,
                       const AggregatedParameters<float>& sums);
};

}  // namespace moh
