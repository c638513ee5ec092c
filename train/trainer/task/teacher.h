#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "models/forward_context.h"
#include "models/model.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/kl_divergence.h"
#include "train/trainer/config/run_config.h"

namespace moh {

/// The teacher of a run with init.distill: the dense twin of the model itself, or a model of its own that
/// keeps the weights of the checkpoint that the run began from. All heads of a teacher are active.
class Teacher {
 public:
  explicit Teacher(const DistillConfig& config) : config_(config) {}

  /// A model whose weights do not change, with a hash of the file that they come from; without it the teacher
  /// is the dense twin.
  void use(std::unique_ptr<Model> model, const std::string& hash) {
    model_ = std::move(model);
    hash_ = hash;
  }
  /// Adds what Task::data_contents() says about it.
  std::vector<std::pair<std::string, std::string>> added_to(
      std::vector<std::pair<std::string, std::string>> contents) const {
    if (!hash_.empty()) contents.emplace_back("init.from", "a teacher with hash " + hash_);
    return contents;
  }

  /// The teacher's logits, computed without a graph; undefined without distillation. `student` is the model
  /// that is trained, of the same type as the teacher; `context` says of the inputs what the student's does
  /// (documents).
  template <class ModelType, class Inputs>
  Tensor logits(const ModelType& student, const Inputs& inputs, ForwardContext context = {}) const {
    if (config_.weight == 0) return {};
    const NoGrad no_grad;
    const ModelType& teacher = model_ ? static_cast<const ModelType&>(*model_) : student;
    context.training = false;
    context.all_heads = true;
    context.balance_loads = {};
    return teacher.forward(inputs, context).logits.value();
  }

  /// The divergence of the student from the teacher, before its weight: kl_divergence() over the targets.
  /// Undefined without distillation. To be called after the loss that consumes the student's logits.
  Variable divergence(const Variable& logits, const Tensor& teacher_logits, const Tensor& targets,
                      const LossDivisor& normalizer) const {
    if (!teacher_logits.defined()) return {};
    return kl_divergence(logits, teacher_logits, targets,
                         {.temperature = config_.temperature, .normalizer = normalizer});
  }
  /// loss + weight * divergence.
  Variable added(const Variable& loss, const Variable& divergence) const {
    return divergence.defined() ? add(loss, scale(divergence, config_.weight)) : loss;
  }

 private:
  DistillConfig config_;
  std::unique_ptr<Model> model_;
  std::string hash_;
};

}  // namespace moh
