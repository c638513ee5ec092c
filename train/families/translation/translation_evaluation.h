#pragma once

#include <optional>

#include "models/translation/translation_model.h"
#include "train/families/translation/data/pair_batches.h"
#include "train/trainer/task/held_out_data.h"

namespace moh {

class Communicator;

/// Evaluates a model on held-out pairs, per target token in nats: the smoothed loss, which is the score,
/// "nll" without smoothing, and "perplexity", e^nll. Returns nothing if `stop` returned true. The processes
/// take batches in turns; sums are made in the order of the batches, so the result does not depend on the
/// number of processes.
std::optional<Evaluation> evaluate_translation_model(const TranslationModel& model, const HeldOutPairs& pairs,
                                                     const SentenceMarks& marks, double label_smoothing,
                                                     StopEvaluation stop, Communicator& processes);

}  // namespace moh
