#include "train/families/translation/translation_evaluation.h"

#include <cmath>
#include <string>

#include "autograd/node.h"
#include "ops/loss/smoothed_cross_entropy.h"
#include "train/comm/communicator.h"

namespace moh {

namespace {

/// Sums over targets.
struct LossSums {
  double loss = 0, nll = 0;
};

LossSums sums_of_batch(const TranslationModel& model, const PairBatch& batch, double label_smoothing) {
  const Variable logits = model.forward(batch.pairs.to(model.device())).logits;
  const SmoothedLoss sums =
      smoothed_cross_entropy(logits, batch.targets.to(model.device()), {.smoothing = label_smoothing});
  return {sums.loss.value().item(), sums.nll.item()};
}

/// Adds the sums of every process, by rank.
void add_all(const LossSums& own, Communicator& processes, LossSums& to) {
  if (processes.alone()) {
    to.loss += own.loss;
    to.nll += own.nll;
    return;
  }
  const Tensor all = empty({processes.size(), 2}, DType::kFloat64);
  processes.all_gather(tensor_of<double>({2}, {own.loss, own.nll}), all);
  for (int r = 0; r < processes.size(); ++r) {
    to.loss += all.select(r).data<double>()[0];
    to.nll += all.select(r).data<double>()[1];
  }
}

}  // namespace

std::optional<Evaluation> evaluate_translation_model(const TranslationModel& model, const HeldOutPairs& pairs,
                                                     const SentenceMarks& marks, double label_smoothing,
                                                     StopEvaluation stop, Communicator& processes) {
  const NoGrad no_grad;
  LossSums sums;
  for (std::int64_t first = 0; first < pairs.size(); first += processes.size()) {
    if (stop({pairs.targets_before(first), pairs.num_targets()})) return std::nullopt;
    const std::int64_t own = first + processes.rank(), last = pairs.size() - 1;
    // All compute a batch, the last one again where there is none: parameters may be divided among them.
    const PairBatch batch = make_pair_batch(pairs.pairs(), pairs.at(std::min(own, last)), marks);
    LossSums own_sums = sums_of_batch(model, batch, label_smoothing);
    if (own > last) own_sums = {};
    add_all(own_sums, processes, sums);
  }
  const auto targets = static_cast<double>(pairs.num_targets());
  Evaluation evaluation;
  evaluation.score = sums.loss / targets;
  evaluation.metrics = {{"nll", sums.nll / targets}, {"perplexity", std::exp(sums.nll / targets)}};
  evaluation.evaluated = pairs.num_targets();
  evaluation.held_out = pairs.all_targets();
  evaluation.coverage = std::to_string(pairs.num_targets()) + " of " + std::to_string(pairs.all_targets()) +
                        " target tokens, " + std::to_string(pairs.num_pairs()) + " sentence pairs";
  return evaluation;
}

}  // namespace moh
