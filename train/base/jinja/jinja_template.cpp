#include "train/base/jinja/jinja_template.h"

#include "train/base/io/printable.h"
#include "train/base/jinja/jinja_evaluator.h"
#include "train/base/jinja/jinja_parser.h"

namespace moh {

namespace {

JinjaBody parsed(const std::string& where, std::string_view source) {
  if (source.size() > JinjaTemplate::kMaxBytes)
    throw TemplateError(where, 1,
                        "expected a template of at most " + std::to_string(JinjaTemplate::kMaxBytes) +
                            " bytes, found " + std::to_string(source.size()));
  if (!is_utf8(source)) throw TemplateError(where, 1, "expected UTF-8, found other bytes");
  return parse_jinja(where, source);
}

}  // namespace

struct JinjaTemplate::Parts {
  std::string where;
  JinjaBody body;
};

JinjaTemplate::JinjaTemplate(std::string where, std::string_view source) {
  JinjaBody body = parsed(where, source);
  parts_ = std::make_unique<const Parts>(Parts{std::move(where), std::move(body)});
}

JinjaTemplate::~JinjaTemplate() = default;
JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;

MarkedText JinjaTemplate::render(const Variables& variables, std::time_t now,
                                 const JinjaLimits& limits) const {
  JinjaEvaluator evaluator(variables, now, limits);
  try {
    return evaluator.run(parts_->body);
  } catch (const JinjaFault& fault) {
    throw TemplateError(parts_->where, evaluator.line(), fault.what(), fault.raised());
  }
}

}  // namespace moh
