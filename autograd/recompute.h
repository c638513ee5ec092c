#pragma once

#include <functional>
#include <vector>

#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

/// A part of a forward pass, as a function of its inputs. What it captures must live until the backward pass.
using Segment = std::function<std::vector<Variable>(const std::vector<Variable>&)>;

/// Runs `segment` without keeping anything but its inputs and outputs, and runs it again when the backward
/// pass needs what is inside (activation checkpointing: Chen et al. 2016, arXiv 1604.06174). Parameters that
/// the segment captured get their gradients too. `generator`, when given, is set back for the second run, so
/// that dropout draws the same numbers. Inside that second run recomputing() is true: whoever counts things
/// in a forward pass must not count again.
std::vector<Variable> recompute(const Segment& segment, const std::vector<Variable>& inputs,
                                Generator* generator = nullptr);

/// Whether this thread is inside the second run of a recomputed segment.
bool recomputing();

/// Whether a backward pass is to follow what this thread computes: it records, or it is in the first run of a
/// recomputed segment, which the second will record. What depends on it is the same in both runs.
bool backward_follows();

}  // namespace moh
