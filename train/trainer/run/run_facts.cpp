#include "train/trainer/run/run_facts.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <algorithm>
#include <memory>
#include <span>

#include "core/cpu_isa.h"
#include "core/cuda/backend.h"
#include "core/error.h"
#include "train/base/io/checksum.h"
#include "train/base/io/input_file.h"
#include "train/comm/launcher.h"
#include "train/config/fields.h"
#include "train/config/write_fields.h"
#include "train/trainer/config/load_run_config.h"
#include "train/weights/checkpoint/manifest.h"
#include "train/weights/load_weights.h"
#include "train/weights/locate_model.h"

namespace moh {

namespace {

/// By which CUDA's libraries choose how, or how exactly, they compute.
constexpr const char* kCudaVariables[] = {"NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "NCCL_ALGO",
                                          "NCCL_PROTO"};

/// The checksum of the file that runs: programs of one version may have been built apart.
std::string checksum_of_program() {
  try {
    constexpr std::size_t kBlock = std::size_t{1} << 20;
    const InputFile file("/proc/self/exe", InputKind::kData);
    Checksum checksum;
    std::string block;
    for (std::uint64_t offset = 0; offset < file.size(); offset += block.size()) {
      block.resize(std::min<std::uint64_t>(kBlock, file.size() - offset));
      file.read(offset, std::as_writable_bytes(std::span(block)), "program");
      checksum.update(std::as_bytes(std::span(block)));
    }
    return "checksum " + checksum.hex();
  } catch (const Error&) {
    return "not readable";
  }
}

std::string c_library() {
#ifdef __GLIBC__
  return std::string("glibc ") + gnu_get_libc_version();
#else
  return "another than glibc";
#endif
}

/// A value for a message: on one line, and not long.
std::string shortened(const std::string& value) {
  constexpr std::size_t kMost = 200;
  std::string line;
  for (const char c : value) line += c == '\n' ? std::string(", ") : std::string(1, c);
  if (line.size() <= kMost) return line;
  return line.substr(0, kMost / 4) + "... (" + std::to_string(std::ranges::count(value, '\n') + 1) +
         " lines, checksum " + checksum_hex(value) + ")";
}

}  // namespace

SharedFacts program_facts(const RunConfig& config) {
  // The one whose kernels the run uses: in float32 machines with and without AVX512-BF16 have the same bits.
  const CpuIsa isa = config.precision == Precision::kBFloat16 ? cpu_isa() : base_isa(cpu_isa());
  SharedFacts facts = {
      {FactKind::kProgram, "version of moh", MOH_VERSION},
      {FactKind::kMachine, "instruction set", std::string(cpu_isa_name(isa))},
      {FactKind::kNote, "program", checksum_of_program()},
      {FactKind::kNote, "C library", c_library()},
  };
  if (config.device == kCpu) return facts;
  for (const char* name : kCudaVariables)
    facts.push_back({FactKind::kSettings, "environment: " + std::string(name), environment_variable(name)});
  return facts;
}

SharedFacts config_facts(const RunConfig& config) {
  RunConfig of_all = with_absolute_paths(config);
  of_all.device.index = 0;
  SharedFacts facts;
  const config::Section root = config::describe(of_all, {});
  for (const config::KeyedField& field : config::all_fields(root))
    facts.push_back({FactKind::kSettings, field.key, config::value_yaml(*field.field)});
  return facts;
}

SharedFacts data_facts(const std::vector<std::pair<std::string, std::string>>& contents) {
  SharedFacts facts;
  for (const auto& [key, value] : contents) facts.push_back({FactKind::kData, key, shortened(value)});
  return facts;
}

SharedFacts device_facts(const RunConfig& config) {
  if (config.device == kCpu) return {};
  return {{FactKind::kNote, "GPU", cuda::product_name()}};
}

SharedFact checkpoint_fact(const std::string& name, const std::filesystem::path& step_folder) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  const std::string manifest =
      read_text_file(step_folder / kManifestFile, InputKind::kCheckpoint, kMostBytes);
  return {FactKind::kCheckpoint, name,
          step_folder.filename().string() + ", checksum of its manifest " + checksum_hex(manifest)};
}

SharedFact weights_fact(const std::string& name, const std::filesystem::path& path, const std::string& part) {
  const ModelLocation location = locate_model(path);
  if (location.is_checkpoint) return checkpoint_fact(name, location.weights);
  const std::unique_ptr<WeightFile> weights = open_weights(location, part);
  return {FactKind::kCheckpoint, name,
          std::to_string(weights->tensors().size()) + " tensors, hash " +
              content_hash(*weights, [](std::uint64_t) {})};
}

}  // namespace moh
