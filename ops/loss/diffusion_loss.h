#pragma once

#include <array>
#include <cstdint>

#include "autograd/variable.h"

namespace moh {

/// The numbers that diffusion_loss needs of a sample's time step, a row: x_0 = per_signal x_t - per_noise
/// eps; the posterior's mean mean_of_start x_0 + mean_of_sample x_t; the logarithms of its largest and its
/// smallest variance; and 1 for the first step, whose likelihood is that of pixels, else 0.
enum DiffusionFactor : std::int64_t {
  kPerSignal,
  kPerNoise,
  kMeanOfStart,
  kMeanOfSample,
  kLogBeta,
  kLogPosterior,
  kFirstStep,
  kDiffusionFactors,  ///< how many there are
};

/// Operands of diffusion_loss besides the prediction: of B samples of C channels. float32 (float64 for a
/// float64 prediction), on its device.
struct DiffusionTargets {
  Tensor start;    ///< [B, C, ...], x_0, in [-1, 1]
  Tensor sample;   ///< x_t, what the model saw
  Tensor noise;    ///< eps
  Tensor factors;  ///< [B, kDiffusionFactors]
};

struct DiffusionLoss {
  Variable loss;                ///< scalar
  Tensor squared_error, bound;  ///< [B], the two parts of each sample
};

/// The loss of a diffusion model with learned variance (Nichol & Dhariwal 2021, arXiv 2102.09672; DiT, arXiv
/// 2212.09748): the sum over samples of mean((eps - eps')^2) + L, divided by normalizer, with
///   L = mean(KL(N(m, s) || N(m', s'))) / ln 2,  log s' = f log beta + (1 - f) log s,  f = (v + 1) / 2,
/// between the posterior of x_0 and x_t and the model's, and for the first step the negative logarithm of
/// the likelihood of x_0 in bins of 2 / 255, in bits. prediction [B, 2 C, ...] has eps', then v; in L eps' is
/// a constant: L trains v alone. A prediction [B, C, ...] without v has no L. Means over the elements of a
/// sample are computed in double precision, in an order that does not depend on the number of threads.
/// Returns the loss in float32 (float64 for float64). Saves its operands. Throws ShapeError, DTypeError,
/// DeviceError, ValueError.
DiffusionLoss diffusion_loss(const Variable& prediction, const DiffusionTargets& targets,
                             double normalizer = 1.0);

}  // namespace moh
