#include "train/base/io/failpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"

namespace moh {

namespace failpoint {

namespace {

constexpr int kKill = -2, kStop = -3, kSlow = -4;

constexpr std::pair<std::string_view, int> kActions[] = {
    {"kill", kKill},        {"stop", kStop},  {"slow", kSlow},    {"nan", kNan},      {"flip", kFlip},
    {"short", kShortWrite}, {"EINTR", EINTR}, {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},
    {"EFBIG", EFBIG},       {"EPERM", EPERM}, {"EACCES", EACCES}, {"EINVAL", EINVAL},
};

struct Armed {
  std::string point;
  long on_pass = 1;
  int action = kKill;
};

[[noreturn]] void refuse(std::string_view spec) {
  throw ConfigError(error_message(
      "MOH_FAIL", spec,
      "POINT_N or POINT_N=ACTION, N from 1, ACTION kill, stop, slow, short, nan, flip or an errno name",
      "something else"));
}

int action_named(std::string_view name, std::string_view spec) {
  for (const auto& [known, action] : kActions) {
    if (known == name) return action;
  }
  refuse(spec);
}

Armed parse_one(std::string_view spec) {
  Armed armed;
  std::string_view point = spec;
  if (const auto equals = spec.find('='); equals != std::string_view::npos) {
    armed.action = action_named(spec.substr(equals + 1), spec);
    point = spec.substr(0, equals);
  }
  const auto underscore = point.rfind('_');
  if (underscore == std::string_view::npos) refuse(spec);
  const char* end = point.data() + point.size();
  const auto number = std::from_chars(point.data() + underscore + 1, end, armed.on_pass);
  if (number.ec != std::errc() || number.ptr != end || armed.on_pass < 1) refuse(spec);
  armed.point = point.substr(0, underscore);
  return armed;
}

std::vector<Armed> parse(std::string_view specs) {
  std::vector<Armed> armed;
  while (!specs.empty()) {
    const auto comma = std::min(specs.find(','), specs.size());
    armed.push_back(parse_one(specs.substr(0, comma)));
    specs.remove_prefix(std::min(comma + 1, specs.size()));
  }
  return armed;
}

struct Registry {
  std::mutex mutex;
  std::optional<std::vector<Armed>> armed;  // nullopt before the first pass() or arm()
  std::map<std::string, long, std::less<>> passes;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

std::string_view specification_in_environment() {
  const char* spec = std::getenv("MOH_FAIL");
  return spec == nullptr ? "" : spec;
}

}  // namespace

namespace {

/// Counts the pass; 0: nothing is to happen.
int action_of_pass(std::string_view point) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (!all.armed) all.armed = parse(specification_in_environment());
  if (all.armed->empty()) return 0;
  auto found = all.passes.find(point);
  if (found == all.passes.end()) found = all.passes.emplace(point, 0).first;
  const long count = ++found->second;
  for (const Armed& armed : *all.armed) {
    if (armed.point == point && armed.on_pass == count) return armed.action;
  }
  return 0;
}

}  // namespace

int pass(std::string_view point) {
  const int action = action_of_pass(point);
  switch (action) {
    case kKill:
      std::raise(SIGKILL);
      return 0;
    case kStop:
      std::raise(SIGSTOP);
      return 0;
    case kSlow:
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return 0;
    default:
      return action;
  }
}

void arm(std::string_view spec) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.armed = parse(spec);
  all.passes.clear();
}

void arm_from_environment() {
  arm(specification_in_environment());
}

}  // namespace failpoint

namespace {

IoTrace* active = nullptr;

}  // namespace

IoTrace::IoTrace() {
  MOH_CHECK(active == nullptr, "only one trace at a time");
  active = this;
}

IoTrace::~IoTrace() {
  active = nullptr;
}

void trace_io(IoEvent::Kind kind, const std::filesystem::path& path, const std::filesystem::path& target,
              std::span<const std::byte> data) {
  if (active == nullptr) return;
  active->events_.push_back({kind, path, target, {reinterpret_cast<const char*>(data.data()), data.size()}});
}

}  // namespace moh
