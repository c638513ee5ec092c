#include "train/families/diffusion/sampling/trained_guidance.h"

#include "train/base/log/logging.h"
#include "train/config/number_text.h"

namespace moh {

std::string reason_against_guidance(const DiffusionRun& run) {
  if (run.diffusion.label_dropout == 0)
    return "with diffusion.label_dropout 0 the model has not learned to draw without a label";
  if (run.diffusion.label_dropout == 1)
    return "with diffusion.label_dropout 1 the model has not learned any label";
  return "";
}

SampleOptions options_for(const DiffusionRun& run, SampleOptions options, bool usual_guidance) {
  options.labels = run.diffusion.label_dropout < 1;
  const bool one_class = usual_guidance && run.model.classes == 1;
  if (one_class || !reason_against_guidance(run).empty()) options.guidance = 1;
  return options;
}

SampleOptions settled(const DiffusionConfig& trained, SampleOptions options, const UsualSamplers& usual) {
  options.objective = trained.objective;
  options.path = trained.path;
  if (options.reverse.kind == SamplerKind::kAuto)
    options.reverse.kind = trained.objective == DiffusionObjective::kFlow ? usual.of_flow : usual.of_steps;
  return options;
}

void note_unguided_samples(const DiffusionRun& run) {
  const std::string reason = reason_against_guidance(run);
  if (run.sample.pictures == 0 || run.sample.options.guidance == 1 || reason.empty()) return;
  log_warning("sample.guidance: " + config::number_text(run.sample.options.guidance) +
              " is not used: " + reason + "; pictures are drawn without guidance, as with 1");
}

}  // namespace moh
