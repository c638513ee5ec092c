#include <cstdint>
#include <string_view>

#include "train/base/io/printable.h"
#include "train/base/jinja/jinja_template.h"

namespace {

using namespace moh;

JinjaValue message(std::string_view role, std::string_view content) {
  return JinjaValue::object(
      {{JinjaValue::text("role", TextAuthor::kInput), JinjaValue::text(role, TextAuthor::kInput)},
       {JinjaValue::text("content", TextAuthor::kInput), JinjaValue::text(content, TextAuthor::kInput)}});
}

}  // namespace

/// A template, and behind a NUL byte the text of a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  const std::string_view content = end == std::string_view::npos ? "hello" : input.substr(end + 1);
  if (!is_utf8(content)) return 0;  // JSON has none
  try {
    const JinjaTemplate form("chat_template", input.substr(0, end));
    const MarkedText text =
        form.render({{"messages", JinjaValue::list({message("user", content), message("assistant", "yes")})},
                     {"tools", JinjaValue::none()},
                     {"add_generation_prompt", JinjaValue::boolean(true)},
                     {"bos_token", JinjaValue::text("<s>", TextAuthor::kTemplate)}},
                    0, {.steps = 100'000, .bytes = 1 << 20, .output = 1 << 16});
    if (text.size() > 1 << 16 || !is_utf8(text.bytes())) __builtin_trap();
  } catch (const TemplateError&) {
  }
  return 0;
}
