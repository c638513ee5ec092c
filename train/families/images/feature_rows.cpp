#include "train/families/images/feature_rows.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace moh {

void put_feature_rows(Tensor& all, std::int64_t at, const Variable& rows, const PictureSource& pictures) {
  const Tensor values = rows.value().to(kCpu).to(DType::kFloat64);
  if (!values.all_finite())
    throw NumericError(error_message("features", pictures.name(at), "finite numbers", "others"));
  if (!all.defined()) all = empty({pictures.size(), values.dim(1)}, DType::kFloat64);
  all.slice(at, at + values.dim(0)).copy_from(values);
}

void softmax_rows(const Tensor& logits) {
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    const Tensor own = logits.select(i);
    const std::span<double> row = own.span<double>();
    const double top = *std::ranges::max_element(row);
    double sum = 0;
    for (double& x : row) sum += x = std::exp(x - top);
    for (double& x : row) x /= sum;
  }
}

}  // namespace moh
