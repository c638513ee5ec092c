#include "train/tasks/images/evaluation_batches.h"

#include "core/tensor.h"

namespace moh {

BatchWorkers<PictureBatch> evaluation_batches(const EvaluationPictures& data, int workers,
                                              const Communicator& processes) {
  constexpr int kAhead = 2;
  const auto number = [n = processes.size(), rank = processes.rank()](std::int64_t own) {
    return own * n + rank;
  };
  const auto is_there = [&data, number](std::int64_t own) { return number(own) < data.size(); };
  return BatchWorkers<PictureBatch>(
      {.begin = [&data, number,
                 is_there](std::int64_t i) { return is_there(i) ? data.begin(number(i)) : PictureBatch{}; },
       .samples = data.rows(0),
       .make =
           [&data, number, is_there](PictureBatch& batch, std::int64_t i, std::int64_t row) {
             if (is_there(i) && row < data.rows(number(i))) data.make(batch, number(i), row);
           },
       .finish =
           [is_there](PictureBatch& batch, std::int64_t i) {
             if (is_there(i)) EvaluationPictures::finish(batch);
           }},
      0, kAhead, workers);
}

void add_in_order(std::span<double> sums, std::span<const double> own, Communicator& processes) {
  const std::int64_t count = std::ssize(own);
  if (processes.alone()) {
    for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
    return;
  }
  const Tensor all = empty({processes.size(), count}, DType::kFloat64);
  processes.all_gather(tensor_of<double>({count}, own), all);
  for (std::int64_t i = 0; i < all.numel(); ++i)
    sums[static_cast<std::size_t>(i % count)] += all.data<double>()[i];
}

}  // namespace moh
