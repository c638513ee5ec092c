#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/jinja/jinja_value.h"

namespace moh {

/// A template that cannot be read, or not be rendered with the values that it was given.
class TemplateError : public DataError {
 public:
  TemplateError(std::string_view where, int line, std::string_view fault, bool raised = false)
      : DataError(std::string(where) + ": line " + std::to_string(line) + ": " + std::string(fault)),
        reason_(fault),
        raised_(raised) {}
  /// The fault, without the place.
  const std::string& reason() const { return reason_; }
  /// Whether the template itself refused the values, by raise_exception().
  bool raised() const { return raised_; }

 private:
  std::string reason_;
  bool raised_;
};

/// Bounds of a rendering: templates come from anywhere.
struct JinjaLimits {
  std::int64_t steps = 4'000'000;                ///< parts of expressions and statements that are evaluated
  std::int64_t bytes = std::int64_t{256} << 20;  ///< of all values that are made on the way
  std::int64_t output = std::int64_t{16} << 20;  ///< bytes of the rendered text
};

/// A template in the part of Jinja that chat templates use, read as transformers reads them (trim_blocks,
/// lstrip_blocks, immutable values): docs/serve.md has the list. Immutable and thread-safe.
class JinjaTemplate {
 public:
  using Variables = std::vector<std::pair<std::string, JinjaValue>>;
  static constexpr std::size_t kMaxBytes = 1 << 20;

  /// Reads a template; `where` names it in messages. Throws TemplateError for one above kMaxBytes, one that
  /// is nested too deeply, and for what is no Jinja or a part of it that is not supported.
  JinjaTemplate(std::string where, std::string_view source);
  ~JinjaTemplate();
  JinjaTemplate(JinjaTemplate&&) noexcept;

  /// The text for these variables; strftime_now() shows `now` in the local time zone. Throws TemplateError
  /// beyond the limits, and for what Python would raise an exception for.
  MarkedText render(const Variables& variables, std::time_t now, const JinjaLimits& limits = {}) const;

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
};

}  // namespace moh
