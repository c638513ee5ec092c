#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "models/diffusion/noise_schedule.h"

namespace moh {

/// DPM-Solver++ (2M) of Lu et al. 2022 (arXiv 2211.01095), the multistep solver of second order for estimates
/// of x_0, along the steps of a schedule from its last to its first. With the estimate m_s of step s, a and
/// sigma of the step's signal and noise, lambda = log(a / sigma), and t before s before r,
///   x_t = (sigma_t / sigma_s) x_s + (a_t - a_s sigma_t / sigma_s) (m_s + (h / 2 h') (m_s - m_r)),
/// h = lambda_t - lambda_s and h' = lambda_s - lambda_r. Its first step is of first order, without m_r, and
/// so is the last, whose result is m_s.
class DpmSolver {
 public:
  /// `schedule` must outlive the solver. `clip_start` bounds the estimates of x_0 to [-1, 1].
  DpmSolver(const NoiseSchedule& schedule, bool clip_start) : schedule_(schedule), clip_start_(clip_start) {}

  /// x at the step before `step`, or x_0, of x [B, C, ...] at `step`, float32 on the CPU, by a prediction of
  /// the noise [B, C, ...]; of [B, 2 C, ...] the second half is not read. Steps are taken in descending
  /// order, without a gap. Throws ShapeError.
  Tensor step(const Tensor& x, const Tensor& prediction, std::int64_t step);

 private:
  const NoiseSchedule& schedule_;
  bool clip_start_;
  Tensor start_before_;  ///< m_r; undefined before the first step
};

}  // namespace moh
