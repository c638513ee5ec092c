#pragma once

#include <functional>
#include <vector>

#include "autograd/node.h"
#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

/// A part of a forward pass, as a function of its inputs. What it captures must live until the backward pass.
using Segment = std::function<std::vector<Variable>(const std::vector<Variable>&)>;

/// Runs `segment` keeping only its inputs and outputs, and runs it again in the backward pass to restore its
/// activations (activation checkpointing: Chen et al. 2016, arXiv 1604.06174). Parameters that the segment
/// captured get their gradients too. `generator`, if given, is rewound for the second run, so that dropout
/// draws the same numbers. recomputing() is true in the second run: statistics of the forward pass must not
/// be counted again.
std::vector<Variable> recompute(const Segment& segment, const std::vector<Variable>& inputs,
                                Generator* generator = nullptr);

/// Frees the value of `y`, an op's result that only backward passes will read from here on, until one does:
/// then it is what `again` returns, the same bits, without recording. Does nothing where no backward pass
/// follows.
void recompute_when_read(const Variable& y, std::function<Variable()> again);

/// Frees `saved`, which an op keeps for its backward pass alone, until that reads it: then it is what `again`
/// returns, the same bits, without recording. recomputing() is true while `again` runs.
void recompute_saved(const Tensor& saved, std::function<Tensor()> again);

/// Whether this thread computes again what it has computed before: in the second run of a recomputed segment,
/// or for a value that was freed until it is read.
bool recomputing();

/// Whether a backward pass will follow: ops are recorded, or this is the first run of what a second one
/// records, as a recomputed segment. Equal in both runs, unlike grad_enabled().
bool backward_follows();

/// While it lives, this thread runs for the first time what a later run records, if `recorded_later`: nothing
/// is recorded now, and what depends on backward_follows() is as in the later run.
class FirstRunScope {
 public:
  explicit FirstRunScope(bool recorded_later = true);
  ~FirstRunScope();
  FirstRunScope(const FirstRunScope&) = delete;
  FirstRunScope& operator=(const FirstRunScope&) = delete;

 private:
  bool outer_;
  NoGrad no_grad_;
};

}  // namespace moh
