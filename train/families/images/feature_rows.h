#pragma once

#include "autograd/variable.h"
#include "train/families/images/data/picture_source.h"

namespace moh {

/// Copies what a model made of pictures [at, at + n) of a source, [n, D], to these rows of `all`, float64 [N,
/// D] on the CPU, which is made by the first call. Throws NumericError, naming the first of the pictures, for
/// numbers that are not finite.
void put_feature_rows(Tensor& all, std::int64_t at, const Variable& rows, const PictureSource& pictures);

/// Logits [N, classes], float64 on the CPU, become probabilities.
void softmax_rows(const Tensor& logits);

}  // namespace moh
