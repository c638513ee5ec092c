#pragma once

#include <span>

#include "train/comm/communicator.h"
#include "train/tasks/data/batch_workers.h"
#include "train/tasks/images/data/picture_batch.h"

namespace moh {

/// Batches of an evaluation that this process computes, in order, made ahead: number i of them is number
/// i * processes + rank of all. One that is not there any more is empty.
BatchWorkers<PictureBatch> evaluation_batches(const EvaluationPictures& data, int workers,
                                              const Communicator& processes);

/// Adds the numbers of a batch of each process, in the order of the batches.
void add_in_order(std::span<double> sums, std::span<const double> own, Communicator& processes);

}  // namespace moh
