#include "train/families/images/evaluation_batches.h"

#include "core/tensor.h"

namespace moh {

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
