#pragma once

namespace moh {

/// How a step from noise towards a picture is made.
enum class SamplerKind {
  kAuto,           ///< the usual one for what the model predicts
  kAncestral,      ///< drawn from the model's distribution of x_(t-1) (Ho et al. 2020)
  kDdim,           ///< of Song et al. 2020 (arXiv 2010.02502); without noise for eta = 0
  kDpmSolver,      ///< DPM-Solver++ (2M) of Lu et al. 2022 (arXiv 2211.01095), see DpmSolver; without noise
  kEuler,          ///< along a flow, of first order
  kHeun,           ///< along a flow, of second order, with two evaluations of the model
  kEulerMaruyama,  ///< along the stochastic equation of a flow's distributions
};

/// Whether steps are those of a flow (follow_flow), else of a process of discrete steps.
constexpr bool follows_flow(SamplerKind kind) {
  return kind >= SamplerKind::kEuler;
}

}  // namespace moh
