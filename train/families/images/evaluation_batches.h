#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "train/comm/communicator.h"
#include "train/trainer/task/data/batch_workers.h"

namespace moh {

/// Batches of an evaluation that this process computes, in order, made ahead: number i of them is number
/// i * processes + rank of all; in the last round, where there is none, the last one of all, so that all
/// processes compute as many: their parameters may be divided. Further ones are empty. `Data`, which must
/// outlive the result, has a type Batch, the number of batches size(), of rows in each rows(batch), and
/// begin(batch), make(batch, number, row) and finish(batch), as EvaluationPictures.
template <class Data>
BatchWorkers<typename Data::Batch> evaluation_batches(const Data& data, int workers,
                                                      const Communicator& processes) {
  using Batch = typename Data::Batch;
  constexpr int kAhead = 2;
  const auto is_there = [&data, n = processes.size()](std::int64_t own) { return own * n < data.size(); };
  const auto number = [&data, n = processes.size(), rank = processes.rank()](std::int64_t own) {
    return std::min(own * n + rank, data.size() - 1);
  };
  return BatchWorkers<Batch>(
      {.begin = [&data, number,
                 is_there](std::int64_t i) { return is_there(i) ? data.begin(number(i)) : Batch{}; },
       .samples = data.rows(0),
       .make =
           [&data, number, is_there](Batch& batch, std::int64_t i, std::int64_t row) {
             if (is_there(i) && row < data.rows(number(i))) data.make(batch, number(i), row);
           },
       .finish =
           [is_there](Batch& batch, std::int64_t i) {
             if (is_there(i)) Data::finish(batch);
           }},
      0, kAhead, workers);
}

/// Adds the numbers of a batch of each process, in the order of the batches.
void add_in_order(std::span<double> sums, std::span<const double> own, Communicator& processes);

}  // namespace moh
