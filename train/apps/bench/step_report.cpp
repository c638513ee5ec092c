#include "train/apps/bench/step_report.h"

#include <spdlog/fmt/ostr.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "train/base/log/format.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

/// Names, indexed by ProfilePhase.
constexpr std::array<const char*, kNumProfilePhases> kPhases = {"forward", "backward", "optimizer"};

void add_phases(Json& object, const PhaseTimes& ms) {
  for (std::size_t i = 0; i < ms.size(); ++i) object[fmt::format("{}_ms", kPhases[i])] = ms[i];
}

/// A peak rate of the device, if it was measured or is known.
struct Peak {
  const char *key, *name;
  std::optional<double> gflops;
};
std::vector<Peak> peaks_of(const StepBenchRecord& r) {
  if (!r.ceilings) return {};
  return {{"fma_peak", "FMA peak", r.ceilings->fma_gflops},
          {"matmul_peak", "matmul peak", r.ceilings->matmul_gflops},
          {"published_peak", "published peak", r.ceilings->published_gflops}};
}

Json peak_bytes(const MemoryStats& memory) {
  Json bytes;
  for (int i = 0; i < kNumMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    bytes[std::string(memory_purpose_name(purpose))] = memory.of(purpose).peak_bytes;
  }
  bytes["total"] = memory.total.peak_bytes;
  return bytes;
}

Json profile_json(const StepProfile& profile) {
  Json ops = Json::array();
  for (const OpTime& op : profile.ops) {
    Json entry = {{"op", op.op}};
    add_phases(entry, op.ms);
    entry["calls"] = op.calls;
    entry["share"] = op.total_ms() / profile.step_ms;
    if (op.gflops > 0) entry["gflops"] = op.gflops;
    ops.push_back(std::move(entry));
  }
  return {{"step_ms", profile.step_ms}, {"other_ms", profile.other_ms()}, {"ops", std::move(ops)}};
}

/// Adds `key` where the number is known.
template <class Number>
void add_known(Json& object, const char* key, Number value) {
  if (value > 0) object[key] = value;
}

Json kernels_json(const KernelProfile& profile, double matmul_gflops) {
  Json rows = Json::array();
  for (const KernelTime& kernel : profile.kernels) {
    Json row = {{"phase", phase_name(kernel.phase)},
                {"op", kernel.op},
                {"kernel", kernel.kernel},
                {"calls", kernel.calls},
                {"median_us", kernel.median_us},
                {"ms", kernel.ms},
                {"share", kernel.ms / profile.step_ms}};
    add_known(row, "gbytes_per_s", kernel.gbytes_per_s);
    add_known(row, "share_of_copy", kernel.gbytes_per_s / profile.copy_gbytes_per_s);
    add_known(row, "op_gflops", kernel.op_gflops);
    add_known(row, "op_share_of_matmul_peak", kernel.op_gflops / matmul_gflops);
    add_known(row, "threads", kernel.resources.threads);
    add_known(row, "registers", kernel.resources.registers);
    add_known(row, "shared_bytes", kernel.resources.shared_bytes);
    add_known(row, "local_bytes", kernel.resources.local_bytes);
    add_known(row, "resident_blocks", kernel.resources.resident_blocks);
    rows.push_back(std::move(row));
  }
  return {{"step_ms", profile.step_ms},
          {"copy_gbytes_per_s", profile.copy_gbytes_per_s},
          {"rows", std::move(rows)}};
}

Json searches_json(const std::vector<GemmSearch>& searches) {
  Json rows = Json::array();
  for (const GemmSearch& search : searches) {
    rows.push_back({{"gemm", search.name},
                    {"candidates", search.candidates},
                    {"first_us", search.first_seconds * 1e6},
                    {"best_us", search.best_seconds * 1e6}});
  }
  return rows;
}

void write_times(std::ostream& out, const StepBenchRecord& r) {
  fmt::print(out, "step                {:10.2f} ms   ({} steps, spread {:.1f}%)\n", r.step_ms,
             r.options.steps, 100 * r.step_ms_spread);
  for (std::size_t i = 0; r.phases && i < kPhases.size(); ++i) {
    const double ms = (*r.phases)[i];
    fmt::print(out, "  {:<18}{:10.2f} ms   {:5.1f}%\n", kPhases[i], ms, 100 * ms / r.step_ms);
  }
  fmt::print(out, "{:<20}{:10.0f}\n", fmt::format("{}/s", r.unit), r.items_per_s);
}

void write_rates(std::ostream& out, const StepBenchRecord& r) {
  fmt::print(out, "FLOP per step       {:10.4g}      (all heads active: {:.4g})\n", r.flops.routed,
             r.flops.dense);
  fmt::print(out, "GFLOP/s             {:10.1f}\n", r.gflops());
  for (const auto& [key, name, gflops] : peaks_of(r)) {
    if (!gflops) continue;
    fmt::print(out, "  {:<18}{:10.1f}      the step reaches {:.1f}% of it\n", name, *gflops,
               100 * r.gflops() / *gflops);
  }
  out << "  (model FLOP: GEMMs and the attention that mask and router leave, forward x 3; no "
         "recomputation)\n";
}

void write_memory(std::ostream& out, const StepBenchRecord& r) {
  fmt::print(out, "peak memory         {:>10}      (process: {})\n", format_bytes(r.memory.total.peak_bytes),
             format_bytes(r.peak_rss_bytes));
  for (int i = 0; i < kNumMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    fmt::print(out, "  {:<18}{:>10}\n", memory_purpose_name(purpose),
               format_bytes(r.memory.of(purpose).peak_bytes));
  }
  fmt::print(out, "system allocations  {:10}\n", r.faults.system_allocations);
  fmt::print(out, "page faults         {:10}\n", r.faults.page_faults);
}

void write_profile(std::ostream& out, const StepProfile& profile) {
  const auto share = [&](double ms) { return 100 * ms / profile.step_ms; };
  out << "\nop, ms per step                    forward  backward optimizer   calls   share  GFLOP/s\n";
  for (const OpTime& op : profile.ops) {
    fmt::print(out, "{:<32}{:10.3f}{:10.3f}{:10.3f}{:8.0f}{:7.1f}%{:>9}\n", op.op, op.ms[0], op.ms[1],
               op.ms[2], op.calls, share(op.total_ms()), op.gflops > 0 ? format_fixed(op.gflops, 1) : "");
  }
  fmt::print(out, "{:<32}{:10.3f}{:35.1f}%\n", "outside ops", profile.other_ms(), share(profile.other_ms()));
}

void write_kernels(std::ostream& out, const KernelProfile& profile) {
  out << "\nkernel                          of                              calls  median us  ms/step   GB/s "
         " op's "
         "GFLOP/s\n";
  for (const KernelTime& k : profile.kernels) {
    fmt::print(out, "{:<32}{:<30}{:8.0f}{:10.1f}{:10.3f}{:>8}{:>12}\n", k.kernel,
               fmt::format("{}, {}", k.op, phase_name(k.phase)), k.calls, k.median_us, k.ms,
               k.gbytes_per_s > 0 ? format_fixed(k.gbytes_per_s, 0) : "",
               k.op_gflops > 0 ? format_fixed(k.op_gflops, 0) : "");
  }
  fmt::print(out, "copy of memory: {:.0f} GB/s; a step with these times: {:.3f} ms\n",
             profile.copy_gbytes_per_s, profile.step_ms);
}

}  // namespace

void write_json_line(std::ostream& out, const StepBenchRecord& r, const std::string& config,
                     const std::vector<std::string>& overrides) {
  const RunConfig& run = r.config;
  Json object = {{"config", config},
                 {"overrides", overrides},
                 {"data", r.options.random_data ? "random" : "files"},
                 {"device", device_name(run.device)},
                 {"dtype", dtype_name(dtype_of(run.precision))},
                 {"isa", cpu_isa_name(cpu_isa())},
                 {"cuda_graph", run.cuda_graph},
                 {"threads", num_threads()},
                 {"parameters", r.parameters},
                 {"batch_size", run.train.batch_size},
                 {"accumulate", run.train.accumulate},
                 {"warmup", r.options.warmup},
                 {"steps", r.options.steps},
                 {"step_ms", r.step_ms},
                 {"step_ms_spread", r.step_ms_spread}};
  for (const auto& [name, size] : r.sample_sizes) object[std::string(name)] = size;
  if (r.phases) add_phases(object, *r.phases);
  object.update({{std::string(r.unit) + "_per_s", r.items_per_s},
                 {"peak_bytes", peak_bytes(r.memory)},
                 {"peak_rss_bytes", r.peak_rss_bytes},
                 {"system_allocations", r.faults.system_allocations},
                 {"page_faults", r.faults.page_faults},
                 {"flops_per_step", r.flops.routed},
                 {"flops_per_step_dense", r.flops.dense},
                 {"gflops", r.gflops()}});
  for (const auto& [key, name, gflops] : peaks_of(r)) {
    if (!gflops) continue;
    object[std::string(key) + "_gflops"] = *gflops;
    object[std::string("share_of_") + key] = r.gflops() / *gflops;
  }
  if (!r.gpu.empty()) {
    object["gpu"] = r.gpu;
    object["held_bytes"] = {
        {"pool", r.held.pool}, {"arenas", r.held.arenas}, {"persistent", r.held.persistent}};
  }
  if (r.graph_nodes > 0) {
    object["graph_nodes"] = r.graph_nodes;
    object["graph_instantiation_ms"] = r.graph_instantiation_ms;
  }
  if (r.profile) object["profile"] = profile_json(*r.profile);
  if (r.kernels) object["kernels"] = kernels_json(*r.kernels, r.ceilings.value().matmul_gflops);
  if (!r.gemm_searches.empty()) object["gemm_searches"] = searches_json(r.gemm_searches);
  out << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

void write_table(std::ostream& out, const StepBenchRecord& r) {
  const RunConfig& run = r.config;
  if (!r.gpu.empty()) out << r.gpu << '\n';
  fmt::print(out, "parameters          {:>10}      {} on {}, {} kernels, {} threads\n",
             format_count(static_cast<double>(r.parameters)), dtype_name(dtype_of(run.precision)),
             device_name(run.device), cpu_isa_name(cpu_isa()), num_threads());
  std::string sizes;
  for (const auto& [name, size] : r.sample_sizes) sizes += fmt::format(", {} {}", name, size);
  fmt::print(out, "batch                               {} x {} samples{}, {} data\n", run.train.accumulate,
             run.train.batch_size, sizes, r.options.random_data ? "random" : "the run's");
  write_times(out, r);
  write_rates(out, r);
  write_memory(out, r);
  if (r.profile) write_profile(out, *r.profile);
  if (r.kernels) write_kernels(out, *r.kernels);
}

}  // namespace moh
