#include "train/trainer/run/training_config.h"

#include <string>

#include "train/base/log/logging.h"
#include "train/trainer/config/active_heads.h"
#include "train/trainer/run/resume_point.h"
#include "train/trainer/task/model_config.h"

namespace moh {

namespace {

RunConfig finish_config(RunFile& file, const StartOptions& start, const Families& families) {
  if (file.leaves_model_open()) {
    if (const auto saved = saved_model(start, file.run().output.dir, families))
      return file.finish(ConfigUse::kData, saved.get());
  }
  return finish_run(file, families, ConfigUse::kData);
}

}  // namespace

RunConfig training_config(RunFile file, const StartOptions& start, const Families& families) {
  log_notes(file);
  const std::size_t logged = file.notes().size();
  RunConfig run = finish_config(file, start, families);
  log_notes(file, logged);
  const MohConfig* const moh = run.family->moh();
  const std::string note = moh == nullptr ? "" : config::note_of_some_layers(*moh, run.family->heads());
  if (!note.empty()) log_info(note);
  return run;
}

}  // namespace moh
