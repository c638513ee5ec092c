#include "train/trainer/task/training_data.h"

#include "train/trainer/config/run_config.h"

namespace moh {

std::int64_t StepPart::first_of(std::int64_t index, std::int64_t first_sample,
                                const TrainConfig& train) const {
  const std::int64_t own = train.accumulate / processes;
  return first_sample + train.batch_size * (index / own * train.accumulate + rank * own + index % own);
}

}  // namespace moh
