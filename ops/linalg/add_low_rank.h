#pragma once

#include <cstdint>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// A product that add_low_rank() adds to a range of columns.
struct LowRankTerm {
  Variable up;                    ///< [O, r]
  std::int64_t first_column = 0;  ///< of the O columns of y
};

/// y with h_i up_i^T added to the columns [first_i, first_i + O_i) of each term: the second half of low-rank
/// adapters (LoRA: Hu et al. 2021, arXiv 2106.09685), whose first half made h. y [..., C]; h [..., sum of r]
/// has the h_i [..., r_i] side by side, in the order of the terms, whose ranges of columns may lie anywhere
/// in y; one floating dtype and device. The products are added in float32 (float64 for float64) and rounded
/// once. Saves h and the matrices. Throws ShapeError, DTypeError, DeviceError, ValueError.
Variable add_low_rank(const Variable& y, const Variable& h, const std::vector<LowRankTerm>& terms);

}  // namespace moh
