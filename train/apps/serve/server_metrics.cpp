#include "train/apps/serve/server_metrics.h"

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <fstream>

namespace moh {

namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string head(const std::string& name, const char* type, const char* help) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

std::string sample(const std::string& name, const char* type, const char* help, std::int64_t value) {
  return head(name, type, help) + name + " " + std::to_string(value) + "\n";
}

/// From /proc; 0 where there is none.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

void Histogram::observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  const std::scoped_lock lock(mutex_);
  ++counts_[static_cast<std::size_t>(bucket)];
  sum_ += value;
}

std::string Histogram::text(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? number(bounds_[i]) : "+Inf";
    text.append(name)
        .append("_bucket{le=\"")
        .append(bound)
        .append("\"} ")
        .append(std::to_string(count))
        .append("\n");
  }
  return text + name + "_sum " + number(sum_) + "\n" + name + "_count " + std::to_string(count) + "\n";
}

void ServerMetrics::answered(const std::string& path, int status, double seconds) {
  request_seconds_.observe(seconds);
  const std::scoped_lock lock(mutex_);
  ++requests_[{path, status}];
}

void ServerMetrics::refused(int status) {
  const std::scoped_lock lock(mutex_);
  ++requests_[{"unread", status}];
}

std::string ServerMetrics::text() const {
  std::string text =
      head("moh_requests_total", "counter",
           "Requests by path and status; those of path unread had not arrived when they were refused.");
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, count] : requests_)
      text += "moh_requests_total{path=\"" + key.first + "\",status=\"" + std::to_string(key.second) +
              "\"} " + std::to_string(count) + "\n";
  }
  text +=
      sample("moh_prompt_tokens_total", "counter", "Tokens of prompts that were computed.", prompt_tokens);
  text += sample("moh_prefix_cache_hit_tokens_total", "counter",
                 "Tokens of prompts that earlier ones began with, and were not computed.", prefix_hit_tokens);
  text += sample("moh_prefix_cache_miss_tokens_total", "counter",
                 "Tokens of prompts that the prefix cache did not have.", prefix_miss_tokens);
  text += sample("moh_prefix_cache_bytes", "gauge", "Memory of the prefix cache.", prefix_bytes);
  text += sample("moh_generated_tokens_total", "counter", "Tokens that were generated.", generated_tokens);
  text += sample("moh_queued_texts", "gauge", "Texts that wait to be computed.", queued_texts);
  text += sample("moh_running_texts", "gauge", "Texts that are computed.", running_texts);
  text += sample("moh_connections", "gauge", "Open connections.", connections.open);
  text += sample("moh_refused_connections_total", "counter", "Connections beyond the limit.",
                 connections.refused);
  text += sample("process_resident_memory_bytes", "gauge", "Main memory of the process.", resident_bytes());
  const auto add = [&](const std::string& name, const char* help, const Histogram& histogram) {
    text += head(name, "histogram", help) + histogram.text(name);
  };
  add("moh_batch_size", "Texts that got a token in one step.", batch_size);
  add("moh_request_seconds", "Time from a request to the end of its answer.", request_seconds_);
  add("moh_first_token_seconds", "Time from a request to its first token.", first_token_seconds);
  return text;
}

}  // namespace moh
