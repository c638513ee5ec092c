#pragma once

#include <cstdint>

#include "core/random.h"
#include "train/config/init_config.h"

namespace moh {

/// Fills the rows of `matrix` [V, D] from `old_rows` on, which must be 1 or more:
///   kMean:   m_j + 0.1 s_j n, with m_j and s_j the mean and standard deviation of column j over the old rows
///            and n standard normal, so that a new token begins as an average one, told from others
///   kNormal: normal numbers of standard deviation `std`
///   kZeros:  0
/// An element is a function of the old rows, of `key` and of its place. The old rows stay as they are.
void fill_new_rows(const Tensor& matrix, std::int64_t old_rows, NewRows how, double std, RandomKey key);

}  // namespace moh
