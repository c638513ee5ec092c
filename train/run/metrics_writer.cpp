#include "train/run/metrics_writer.h"

#include <utility>

namespace moh {

MetricsWriter::MetricsWriter(std::filesystem::path path, std::int64_t keep_through_step, bool evaluates_again)
    : file_(std::move(path)),
      dropped_records_(file_.drop_records_after(keep_through_step, evaluates_again ? "eval" : "")) {}

}  // namespace moh
