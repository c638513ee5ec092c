#include "train/plan/memory_plan.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "autograd/node.h"
#include "train/plan/planned_llama.h"
#include "train/tasks/language_model.h"
#include "train/tasks/llama_from_config.h"

namespace moh {

namespace {

/// cuBLASLt's, which is kept once it is there (ops/linalg/cublas_product.h).
constexpr std::int64_t kCublasWorkspace = std::int64_t{32} << 20;

/// Moments and masters; on a GPU the gradients, too, have their places from the start.
std::vector<PlannedTensor> optimiser_state(const PlannedLlama& model, const PlannedOps& ops) {
  std::vector<PlannedTensor> state;
  for (const PlannedVariable& p : model.parameters()) {
    const MemoryPurposeScope purpose(MemoryPurpose::kOptimizer);
    const int copies = p.value().dtype() == DType::kBFloat16 ? 3 : 2;
    for (int i = 0; i < copies; ++i) state.push_back(ops.tensor(p.value().numel(), DType::kFloat32));
    if (ops.on_cpu()) continue;
    const MemoryPurposeScope gradient(MemoryPurpose::kGradient);
    p.keep_gradient_in(ops.tensor(p.value().numel(), DType::kFloat32));
  }
  return state;
}

/// Tokens and targets: on the CPU of the batches that are prefetched and in use, on a GPU of a step's.
std::vector<PlannedTensor> batches(const RunConfig& config, const PlannedOps& ops) {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const std::int64_t tokens = config.train.batch_size * config.data.sequence_length;
  const std::int64_t ahead = ops.on_cpu() ? LanguageModelTask::kPrefetchDepth : 0;
  std::vector<PlannedTensor> tensors;
  for (std::int64_t i = 0; i < 2 * (ahead + config.train.accumulate); ++i) {
    tensors.push_back(ops.tensor(tokens, DType::kInt64));
  }
  return tensors;
}

void micro_batch(const PlannedLlama& model, const PlannedOps& ops, const RunConfig& config,
                 const PlannedTensor& targets) {
  PlannedVariable loss;
  std::vector<PlannedVariable> balances;
  {
    const PlannedLlama::Output output =
        model.forward(config.train.batch_size, config.data.sequence_length, /*training=*/true);
    loss = ops.cross_entropy(output.logits, targets, config.train.batch_size * config.data.sequence_length);
    balances = output.balances;
  }
  std::vector<PlannedVariable> roots = {loss};
  std::vector<PlannedTensor> seeds = {loss.value().like()};
  if (config.model.moh.balance_weight > 0) {
    for (const PlannedVariable& balance : balances) {
      roots.push_back(balance);
      seeds.push_back(balance.value().like());
    }
  }
  planned_backward(roots, seeds);
}

void evaluation(const PlannedLlama& model, const PlannedOps& ops, const RunConfig& config,
                const PlannedTensor& targets) {
  const NoGrad no_grad;
  const std::int64_t sequences = config.train.batch_size, length = config.data.sequence_length;
  const PlannedLlama::Output output = model.forward(sequences, length, /*training=*/false);
  ops.cross_entropy(output.logits, targets, sequences * length);
}

}  // namespace

std::int64_t MemoryPlan::needed_bytes() const {
  return std::max(stats.total.peak_bytes, evaluation_bytes);
}

MemoryPlan plan_memory(const RunConfig& config) {
  MemoryLedger ledger(config.device);
  const PlannedOps ops(ledger);
  const PlannedLlama model(llama_config_of(config.model), ops, dtype_of_precision(config.precision));
  const std::vector<PlannedTensor> state = optimiser_state(model, ops), data = batches(config, ops);
  std::optional<PlannedTensor> cublas;
  if (!ops.on_cpu()) {
    const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
    cublas.emplace(ledger, kCublasWorkspace, DType::kUInt8);
  }
  // From the second micro-batch on each finds what the one before it found. The update takes no memory that
  // would count.
  for (std::int64_t i = 0; i < std::min<std::int64_t>(config.train.accumulate, 2); ++i) {
    micro_batch(model, ops, config, data.front());
  }
  MemoryPlan plan{ledger.stats(), ledger.at_peak(), 0};
  ledger.reset_peaks();
  evaluation(model, ops, config, data.front());
  plan.evaluation_bytes = ledger.stats().total.peak_bytes;
  return plan;
}

}  // namespace moh
