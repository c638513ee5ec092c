#include "train/tasks/calibration.h"

#include "core/error.h"

namespace moh {

Calibration::BatchLoss NoCalibration::loss(const Model&, std::int64_t, const ForwardContext&,
                                           Reduction) const {
  fail_check(__FILE__, __LINE__, "index < size()", "there is no batch to measure on");
}

Variable NoCalibration::logits(const Model&, std::int64_t, const ForwardContext&) const {
  fail_check(__FILE__, __LINE__, "index < size()", "there is no batch to measure on");
}

}  // namespace moh
