#include "train/families/diffusion/sampling/sample_options.h"

#include "models/diffusion/dit.h"
#include "models/diffusion/flow_sampling.h"

namespace moh {

std::int64_t number_of_steps(const SampleOptions& options) {
  if (options.objective == DiffusionObjective::kFlow) return flow_steps(options.steps);
  return std::ssize(steps_of(options.steps, kDiffusionSteps));
}

std::int64_t model_passes(const SampleOptions& options) {
  const std::int64_t of_step = options.reverse.kind == SamplerKind::kHeun ? 2 : 1;
  return number_of_steps(options) * of_step * (options.guidance == 1 ? 1 : 2);
}

}  // namespace moh
