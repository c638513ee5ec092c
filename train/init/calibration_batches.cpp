#include "train/init/calibration_batches.h"

#include "train/tasks/language_model.h"

namespace moh {

CalibrationBatches::CalibrationBatches(const LanguageData& data, const RunConfig& config)
    : batches_(data.train, *data.tokenizer, config.data.sequence_length,
               static_cast<std::uint64_t>(config.seed)),
      batch_size_(config.train.batch_size),
      size_(config.init.moh.calibration.batches) {}

}  // namespace moh
