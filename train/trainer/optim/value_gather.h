#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "autograd/variable.h"
#include "train/trainer/optim/parameter_shards.h"

namespace moh {

/// The way of new values from the processes that have made them to all others, while computing goes on, a few
/// buckets at a time. From its construction on, reading a leaf (Variable::value()) waits for the values of
/// its bucket, and starts others: it is a collective, and comes in all processes at the same place among
/// their collectives, until finish().
class ValueGather {
 public:
  /// `own[i]` are the new values of this process's part of leaves[i]. The communicator of `shards` must
  /// outlive the leaves, or whatever reads them. On a GPU the compute queue waits, in place of the caller.
  ValueGather(std::shared_ptr<const ParameterShards> shards, std::span<const Tensor> own,
              std::span<const Variable> leaves);

  /// Begins to send and receive. A collective.
  void start() const;
  /// Waits for all values. A collective.
  void finish() const;
  /// The values have come in another way: nobody waits any more.
  void forget() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the leaves have it, too
  std::vector<Variable> leaves_;
};

}  // namespace moh
