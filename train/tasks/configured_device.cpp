#include "train/tasks/configured_device.h"

#include "ops/linalg/gemm_options.h"
#include "train/io/durable_file.h"
#include "train/io/input_file.h"

namespace moh {

void open_configured_device(const RunConfig& config, NewProducts new_products) {
  open_device(config.device);
  if (config.device == kCpu) return;
  GemmOptions options;
  if (const std::filesystem::path file = config.gemm_algorithms; !file.empty()) {
    constexpr std::uint64_t kMostBytes = 16 << 20;
    options.algorithms_name = file.string();
    if (std::filesystem::exists(file))
      options.algorithms = read_text_file(file, InputKind::kData, kMostBytes);
    options.search = new_products != NewProducts::kFirstProposal;
    if (new_products == NewProducts::kSearchAndKeep)
      options.on_found = [file](const std::string& text) { write_file_durably(file, text); };
  }
  set_gemm_options(options);
}

}  // namespace moh
