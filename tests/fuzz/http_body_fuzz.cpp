#include <string_view>
#include <vector>

#include "train/apps/serve/chat_template.h"
#include "train/apps/serve/completion_json.h"
#include "train/apps/serve/requests.h"
#include "train/apps/serve/token_text.h"
#include "train/base/http/request_error.h"

namespace {

using namespace moh;

const ByteTokenizer bytes_tokenizer;
const TokenText token_text(bytes_tokenizer);
const ChatTemplate chat_template(token_text, "{role}: {content}\n");

std::vector<TokenId> ids_of(const Prompt& prompt) {
  if (const auto* const text = std::get_if<std::string>(&prompt))
    return token_text.encode("prompt", *text, true);
  token_text.require_known("prompt", std::get<std::vector<TokenId>>(prompt));
  return std::get<std::vector<TokenId>>(prompt);
}

/// A request, and the answer to it, with a token generated for each text.
void complete(std::string_view body) {
  const CompletionRequest request = parse_completion_request(body);
  std::vector<std::vector<TokenId>> ids;
  for (const Prompt& prompt : request.prompts) ids.push_back(ids_of(prompt));
  CompletionJson json(request, ids, "moh", token_text);
  for (std::size_t i = 0; i < ids.size() * static_cast<std::size_t>(request.n); ++i) {
    const TextPiece piece{i, "a", {{97, -1.0F, {{98, -0.5F}}}}, 1, Finish::kLength};
    if (request.stream) {
      json.chunk(piece);
    } else {
      json.add(piece);
    }
  }
  json.whole();
}

template <class Read>
void refused_or_read(Read read) {
  try {
    read();
  } catch (const RequestError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  refused_or_read([&] { complete(body); });
  refused_or_read([&] { chat_template.encode(parse_chat_request(body).messages, 1 << 16); });
  refused_or_read([&] { token_text.encode("prompt", parse_tokenize_request(body).prompt, true); });
  refused_or_read([&] {
    const std::vector<TokenId> tokens = parse_detokenize_request(body).tokens;
    token_text.require_known("tokens", tokens);
    token_text.decode(tokens);
  });
  return 0;
}
