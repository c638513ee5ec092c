#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "train/log/format.h"
#include "train/tools/bench/step_bench.h"

namespace moh {

namespace {

nlohmann::ordered_json peak_bytes(const MemoryStats& memory) {
  nlohmann::ordered_json bytes;
  for (int i = 0; i < kNumMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    bytes[std::string(memory_purpose_name(purpose))] = memory.of(purpose).peak_bytes;
  }
  bytes["total"] = memory.total.peak_bytes;
  return bytes;
}

nlohmann::ordered_json profile_json(const StepProfile& profile) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const OpTime& op : profile.ops) {
    nlohmann::ordered_json entry = {{"op", op.op},
                                    {"forward_ms", op.forward_ms},
                                    {"backward_ms", op.backward_ms},
                                    {"optimizer_ms", op.optimizer_ms},
                                    {"calls", op.calls},
                                    {"share", op.total_ms() / profile.step_ms}};
    if (op.gflops > 0) entry["gflops"] = op.gflops;
    ops.push_back(std::move(entry));
  }
  return {{"step_ms", profile.step_ms}, {"other_ms", profile.other_ms()}, {"ops", std::move(ops)}};
}

void write_times(std::ostream& out, const StepBenchRecord& r) {
  write_line(out, "step", "%10.2f ms   (%lld steps, spread %.1f%%)", r.step_ms,
             static_cast<long long>(r.steps), 100 * r.step_ms_spread);
  const auto part = [&](const char* name, double ms) {
    write_line(out, name, "%10.2f ms   %5.1f%%", ms, 100 * ms / r.step_ms);
  };
  if (r.phases) {
    part("  forward", r.phases->forward_ms);
    part("  backward", r.phases->backward_ms);
    part("  optimizer", r.phases->optimizer_ms);
  }
  write_line(out, (r.unit + "/s").c_str(), "%10.0f", r.items_per_s);
}

void write_rates(std::ostream& out, const StepBenchRecord& r) {
  write_line(out, "FLOP per step", "%10.4g      (all heads on: %.4g)", r.flops.routed, r.flops.dense);
  write_line(out, "GFLOP/s", "%10.1f", r.gflops());
  const auto ceiling = [&](const char* name, double gflops) {
    write_line(out, name, "%10.1f      the step reaches %.1f%% of it", gflops, 100 * r.gflops() / gflops);
  };
  if (r.ceilings.fma_gflops) ceiling("  FMA peak", *r.ceilings.fma_gflops);
  ceiling("  matmul peak", r.ceilings.matmul_gflops);
  if (r.ceilings.published_gflops) ceiling("  published peak", *r.ceilings.published_gflops);
  out << "  (model FLOP: products and the pairs that mask and router leave, forward x 3; nothing twice)\n";
}

/// Rates beside what the machine can do: those that were measured, or are known.
void add_ceilings(nlohmann::ordered_json& object, const StepBenchRecord& r) {
  const auto add = [&](const std::string& name, std::optional<double> gflops) {
    if (!gflops) return;
    object[name + "_gflops"] = *gflops;
    object["share_of_" + name] = r.gflops() / *gflops;
  };
  add("fma_peak", r.ceilings.fma_gflops);
  add("matmul_peak", r.ceilings.matmul_gflops);
  add("published_peak", r.ceilings.published_gflops);
}

void write_memory(std::ostream& out, const StepBenchRecord& r) {
  write_line(out, "peak memory", "%10s      (process: %s)", format_bytes(r.memory.total.peak_bytes).c_str(),
             format_bytes(r.peak_rss_bytes).c_str());
  for (int i = 0; i < kNumMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    write_line(out, ("  " + std::string(memory_purpose_name(purpose))).c_str(), "%10s",
               format_bytes(r.memory.of(purpose).peak_bytes).c_str());
  }
  write_line(out, "system allocations", "%10lld", static_cast<long long>(r.faults.system_allocations));
  write_line(out, "page faults", "%10lld", static_cast<long long>(r.faults.page_faults));
}

void write_profile(std::ostream& out, const StepProfile& profile) {
  char text[160];
  const auto share = [&](double ms) { return 100 * ms / profile.step_ms; };
  std::snprintf(text, sizeof text, "\n%-32s%10s%10s%10s%8s%8s%9s\n", "op, ms per step", "forward", "backward",
                "optimizer", "calls", "share", "GFLOP/s");
  out << text;
  for (const OpTime& op : profile.ops) {
    std::snprintf(text, sizeof text, "%-32s%10.3f%10.3f%10.3f%8.0f%7.1f%%%9s\n", op.op.c_str(), op.forward_ms,
                  op.backward_ms, op.optimizer_ms, op.calls, share(op.total_ms()),
                  op.gflops > 0 ? format_fixed(op.gflops, 1).c_str() : "");
    out << text;
  }
  std::snprintf(text, sizeof text, "%-32s%10.3f%35.1f%%\n", "in no op", profile.other_ms(),
                share(profile.other_ms()));
  out << text;
}

}  // namespace

void write_json_line(std::ostream& out, const StepBenchRecord& r) {
  nlohmann::ordered_json object = {{"config", r.config},
                                   {"overrides", r.overrides},
                                   {"data", r.random_data ? "random" : "files"},
                                   {"device", r.device},
                                   {"dtype", r.dtype},
                                   {"isa", r.isa},
                                   {"cuda_graph", r.cuda_graph},
                                   {"threads", r.threads},
                                   {"parameters", r.parameters},
                                   {"batch_size", r.batch_size},
                                   {"accumulate", r.accumulate},
                                   {"warmup", r.warmup},
                                   {"steps", r.steps},
                                   {"step_ms", r.step_ms},
                                   {"step_ms_spread", r.step_ms_spread}};
  for (const auto& [name, size] : r.sample_sizes) object[name] = size;
  if (r.phases) {
    object["forward_ms"] = r.phases->forward_ms;
    object["backward_ms"] = r.phases->backward_ms;
    object["optimizer_ms"] = r.phases->optimizer_ms;
  }
  object.update({{r.unit + "_per_s", r.items_per_s},
                 {"peak_bytes", peak_bytes(r.memory)},
                 {"peak_rss_bytes", r.peak_rss_bytes},
                 {"system_allocations", r.faults.system_allocations},
                 {"page_faults", r.faults.page_faults},
                 {"flops_per_step", r.flops.routed},
                 {"flops_per_step_dense", r.flops.dense},
                 {"gflops", r.gflops()}});
  add_ceilings(object, r);
  if (!r.gpu.empty()) object["gpu"] = r.gpu;
  if (r.profile) object["profile"] = profile_json(*r.profile);
  out << object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void write_table(std::ostream& out, const StepBenchRecord& r) {
  if (!r.gpu.empty()) out << r.gpu << '\n';
  write_line(out, "parameters", "%10s      %s on %s, %s kernels, %d threads",
             format_count(static_cast<double>(r.parameters)).c_str(), r.dtype.c_str(), r.device.c_str(),
             r.isa.c_str(), r.threads);
  std::string sizes;
  for (const auto& [name, size] : r.sample_sizes) sizes += ", " + name + " " + std::to_string(size);
  write_line(out, "batch", "%10s      %lld x %lld samples%s, %s data", "",
             static_cast<long long>(r.accumulate), static_cast<long long>(r.batch_size), sizes.c_str(),
             r.random_data ? "random" : "the run's");
  write_times(out, r);
  write_rates(out, r);
  write_memory(out, r);
  if (r.profile) write_profile(out, *r.profile);
}

}  // namespace moh
