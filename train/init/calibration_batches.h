#pragma once

#include <cstdint>

#include "train/config/run_config.h"
#include "train/data/token_batch.h"

namespace moh {

struct LanguageData;

/// Batches of the training data on which a checkpoint is measured before a run begins from it: those that the
/// run itself would see first.
class CalibrationBatches {
 public:
  CalibrationBatches(const LanguageData& data, const RunConfig& config);

  /// init.moh.calibration.batches: those that every measurement reads.
  std::int64_t size() const { return size_; }
  /// Batch `index`, which may go on past size().
  TokenBatch at(std::int64_t index) const { return batches_.at(index * batch_size_, batch_size_); }

 private:
  TrainingBatches batches_;
  std::int64_t batch_size_, size_;
};

}  // namespace moh
