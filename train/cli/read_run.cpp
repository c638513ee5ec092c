#include "train/cli/read_run.h"

#include "train/log/logging.h"
#include "train/tasks/model_source.h"

namespace moh::cli {

RunConfig read_run(const std::string& path, const std::vector<std::string>& overrides,
                   const Families& families, ConfigUse use) {
  return read_run(path, overrides, families, use,
                  [&](const RunConfig& run) { return model_of_source(run, families); });
}

RunConfig read_run(const std::string& path, const std::vector<std::string>& overrides,
                   const Families& families, ConfigUse use, const OpenModel& open_model) {
  RunFile file(path, overrides, families.configs());
  for (const std::string& note : file.notes()) log_warning(note);
  if (!file.leaves_model_open()) return file.finish(use);
  const std::unique_ptr<FamilyConfig> checkpoint = open_model(file.run());
  return file.finish(use, checkpoint.get());
}

}  // namespace moh::cli
