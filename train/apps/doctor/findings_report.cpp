#include "train/apps/doctor/findings_report.h"

#include <nlohmann/json.hpp>

namespace moh {

namespace {

constexpr std::size_t kNameWidth = 12;

std::string line(const std::string& name, const std::string& text) {
  return name + std::string(kNameWidth - name.size(), ' ') + text + '\n';
}

nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace

std::string findings_text(const std::string& program, std::span<const Finding> findings) {
  std::string text = line("program", program);
  for (const Finding& finding : findings) {
    text += line(finding.name, finding.found.empty() ? "none: " + finding.missing : finding.found);
    if (!finding.found.empty() && !finding.missing.empty()) text += line("", finding.missing);
  }
  return text;
}

std::string findings_json(const std::string& program, std::span<const Finding> findings) {
  nlohmann::ordered_json found = nlohmann::ordered_json::object();
  for (const Finding& finding : findings)
    found[finding.name] = {{"found", or_null(finding.found)}, {"missing", or_null(finding.missing)}};
  return nlohmann::ordered_json({{"program", program}, {"findings", found}}).dump(2) + '\n';
}

}  // namespace moh
