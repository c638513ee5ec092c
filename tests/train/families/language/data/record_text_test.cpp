#include "train/families/language/data/record_text.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/language/data/byte_tokenizer.h"
#include "train/families/language/data/corpus.h"
#include "train/families/language/data/encode_documents.h"
#include "train/families/language/data/token_batch.h"
#include "train/families/language/data/token_file.h"
#include "train/families/language/data/tokenize_files.h"
#include "train/tokenizers/tokenizer.h"

using namespace moh;
using Catch::Contains;
using moh::test::byte_tokenizer;

namespace {

const std::string chat_form = "<{role}>{content};";

/// A record's text, what is no target in brackets.
std::string read_record(const std::string& line, const RecordOptions& options = {}) {
  const RecordReader reader(options);
  DocumentPart part{line, true, 1};
  const auto kind = reader.kind_of({"a.jsonl", true}, part);
  REQUIRE(kind.has_value());
  std::string text;
  for (const TextSegment& segment : reader.segments("a.jsonl", part, *kind))
    text += segment.is_target ? segment.text : "[" + segment.text + "]";
  return text;
}

/// The marked ids of a byte tokenizer as text: what is no target in upper case, documents separated by '|'.
std::string marked_text(const TokenSource& source) {
  std::vector<TokenId> ids(static_cast<std::size_t>(source.size()));
  source.copy_marked(0, ids);
  std::string text;
  for (const TokenId id : ids) {
    const TokenId plain = unmarked(id);
    if (plain == 0) text += is_marked(id) ? "!" : "|";
    if (plain != 0) text += static_cast<char>(is_marked(id) ? std::toupper(plain) : plain);
  }
  return text;
}

/// Like bytes, with a token that texts begin with.
class WithStart final : public Tokenizer {
 public:
  std::string_view name() const override { return "with start"; }
  std::int64_t vocab_size() const override { return 40000; }
  std::uint64_t content_hash() const override { return 5; }
  std::optional<TokenId> end_of_document() const override { return 39999; }
  const std::vector<TokenId>& sequence_start() const override {
    static const std::vector<TokenId> start = {39998};
    return start;
  }
  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    ids.push_back(7);  // as SentencePiece's space before the first word
    encode_rest(text, ids);
  }
  void encode_rest(std::string_view text, std::vector<TokenId>& ids) const override {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
  std::string_view token_bytes(TokenId) const override { return "x"; }
};

const std::string prompt_lines =
    "{\"prompt\": \"a b\", \"response\": \"cd\", \"n\": 1}\n\n"
    "{\"response\": \"\", \"prompt\": \"e\"}\r\n{\"prompt\": \"\", \"response\": \"f\"}\n";

}  // namespace

TEST_CASE("record_text: a record is a text, a prompt and a response, or a chat") {
  CHECK(read_record(R"({"text": "one\ntwo"})") == "one\ntwo");
  CHECK(read_record(R"({"prompt": "2+2=", "response": "4"})") == "[2+2=]4");
  CHECK(read_record(R"({"body": "one", "text": 1})", {.text_key = "body"}) == "one");
  // Templates: keys, and text around them, also more than one key and none.
  CHECK(read_record(R"({"q": "why", "a": "so", "hint": "h"})",
                    {.prompt = "Q: {q} ({hint})\nA:", .response = " {a}<end>"}) ==
        "[Q: why (h)\nA:] so<end>");
  CHECK(read_record(R"({"a": "so"})", {.prompt = "{{\"x\": 1}}", .response = "{{{a}}}"}) ==
        "[{\"x\": 1}]{so}");
  CHECK(read_record(R"({"a": "so"})", {.prompt = "", .response = "{a}"}) == "[]so");
  const std::string chat =
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
    {"role": "assistant", "content": "a"}, {"role": "user", "content": "v"}, {"role": "assistant", "content": "b"}]})";
  CHECK(read_record(chat, {.message = chat_form}) ==
        "[<system>s;<user>u;<assistant>]a;[<user>v;<assistant>]b;");
  // An empty template, or key, says that there are none of the kind.
  const std::string both = R"({"text": "t", "prompt": "p", "response": "r"})";
  CHECK(read_record(both, {.text_key = ""}) == "[p]r");
  CHECK(read_record(both, {.response = ""}) == "t");
}

TEST_CASE("record_text: what is wrong with a record is said with file and line") {
  const auto refused = [](const std::string& line, const std::string& said,
                          const RecordOptions& options = {}) {
    CHECK_THROWS_WITH(read_record(line, options), Contains("a.jsonl:1: ") && Contains(said));
  };
  refused("[1]", "expected a JSON object, found [1]");
  refused(R"({"prompt": "p", "answer": "r"})",
          "expected a text at the key 'text', or texts at the keys 'prompt' and 'response', found the keys "
          "'answer', 'prompt'");
  refused("{}", "found an empty object");
  refused(R"({"prompt": "p", "response": 4})", "expected a text at the key 'response', found 4");
  refused(R"({"prompt": null, "response": "r"})", "expected a text at the key 'prompt', found null");
  refused(R"({"text": "t", "prompt": "p", "response": "r"})",
          "expected one of: a text at the key 'text', or texts at the keys 'prompt' and 'response', found "
          "the keys "
          "'prompt', 'response', 'text'; an empty text_key");
  refused(R"({"messages": []})", "or texts at the keys 'prompt' and 'response', found the keys 'messages'");
  const RecordOptions chats{.message = chat_form};
  refused(R"({"messages": []})", "expected a list of messages at the key 'messages', found []", chats);
  refused(R"({"messages": "hello"})", "expected a list of messages at the key 'messages', found \"hello\"",
          chats);
  refused(R"({"messages": [{"role": "user", "content": "u"}]})",
          "'messages': expected a message of the role 'assistant', which is learned, found none", chats);
  refused(R"({"messages": [{"role": "user"}]})",
          "message 0: expected a text at the key 'content', found no such key", chats);
  refused(R"({"messages": [{"role": "user", "content": "u"}, 3]})",
          "message 1: expected a JSON object, found 3", chats);
  refused(R"({"messages": [{"role": ["user"], "content": "u"}]})",
          "message 0: expected a text at the key 'role', found [\"user\"]", chats);

  // The first record says what the file is.
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "a.jsonl", prompt_lines + "{\"text\": \"t\"}\n");
  CHECK_THROWS_WITH(open_corpus(std::vector{path}, byte_tokenizer),
                    Contains("a.jsonl:5: expected a text at the key 'prompt', found no such key"));
}

TEST_CASE("record_text: what is no template is refused") {
  const auto fault = [](const RecordOptions& options) {
    const auto faults = template_faults(options);
    return faults.empty() ? "" : std::string(faults.at(0).first) + ": " + faults.at(0).second;
  };
  CHECK(fault({}).empty());
  CHECK(fault({.prompt = "", .response = "", .message = ""}).empty());
  CHECK(fault({.prompt = "a {b"}) == "prompt_template: a { at byte 2 without its }");
  CHECK(fault({.prompt = "a {b {c}"}) == "prompt_template: a { at byte 2 without its }");
  CHECK(fault({.prompt = "a }"}) == "prompt_template: a } at byte 2 without its {");
  CHECK(fault({.prompt = "{}"}) == "prompt_template: {} at byte 0, without a key");
  CHECK(fault({.prompt = "{"}) == "prompt_template: a { at byte 0 without its }");
  CHECK(fault({.response = "yes"}) == "response_template: yes, without {");
  CHECK(fault({.message = "{role}"}) == "message_template: {role}, without {content}");
  CHECK_THROWS_WITH(
      RecordReader({.response = "{a"}),
      Contains("data.response_template: expected text in which {key}") && Contains("without its }"));
}

TEST_CASE("record_text: prompts are marked, in memory as in token files, and the end of a text is a target") {
  const TemporaryFolder folder;
  const std::vector<std::string> inputs = {write_file(folder / "a.jsonl", prompt_lines),
                                           write_file(folder / "b.txt", "plain")};
  const Corpus corpus = open_corpus(inputs, byte_tokenizer);
  const TokenSourcePtr tokens = split_corpus(corpus, byte_tokenizer, 0).train;
  CHECK(marked_text(*tokens) == "A Bcd|E|f|plain");

  const TokenizeReport report = tokenize_files(inputs, folder / "t.safetensors", byte_tokenizer);
  CHECK(report.info.prompt_tokens == 4);
  CHECK(report.info.stored_dtype == "I16");
  CHECK(report.info.text_bytes == 12);
  CHECK(report.info.num_documents == 4);
  CHECK_THAT(describe(report.info),
             Contains("tokens      15 (2 bytes each)\nprompt tokens: 4 (not trained on)\n"));
  const auto file = TokenFile::open((folder / "t.safetensors").string());
  CHECK(marked_text(*file) == marked_text(*tokens));
  std::vector<TokenId> ids(3);
  file->copy(0, ids);  // without marks
  CHECK(ids == std::vector<TokenId>{'a', ' ', 'b'});
  CHECK(open_corpus(std::vector<std::string>{(folder / "t.safetensors").string()}, byte_tokenizer)
            .num_tokens() == 15);

  // Whatever the order of the files, also where marks come after ids without, and in a folder of token files.
  const std::vector<std::string> reversed = {inputs[1], inputs[0]};
  tokenize_files(reversed, folder / "r.safetensors", byte_tokenizer);
  CHECK(marked_text(*TokenFile::open((folder / "r.safetensors").string())) == "plain|A Bcd|E|f");
  CHECK(marked_text(*split_corpus(open_corpus(reversed, byte_tokenizer), byte_tokenizer, 0).train) ==
        "plain|A Bcd|E|f");
  tokenize_to_folder(inputs, folder / "all", byte_tokenizer, {});
  CHECK(marked_text(
            *split_corpus(open_corpus(std::vector<std::string>{(folder / "all").string()}, byte_tokenizer),
                          byte_tokenizer, 0)
                 .train) == "A Bcd|E|f|plain");
}

TEST_CASE("record_text: the start of a text is part of its prompt, and a response goes on from it") {
  const TemporaryFolder folder;
  const WithStart tokenizer;
  const std::string path = write_file(folder / "a.jsonl", prompt_lines);
  std::vector<TokenId> ids(15);
  const Corpus corpus = open_corpus(std::vector{path}, tokenizer);
  REQUIRE(corpus.num_tokens() == 15);
  corpus.files[0].tokens->copy_marked(0, ids);
  const std::vector<TokenId> expected = {
      marked(39998), marked(7), marked('a'), marked(' '), marked('b'),   'c', 'd', 39999,
      marked(39998), marked(7), marked('e'), 39999,       marked(39998), 7,   'f'};
  CHECK(ids == expected);
  const TokenizeReport report = tokenize_files(std::vector{path}, folder / "t", tokenizer);
  CHECK(report.info.stored_dtype == "I32");  // ids above 32767 and marks
  std::vector<TokenId> read(15);
  TokenFile::open((folder / "t").string())->copy_marked(0, read);
  CHECK(read == expected);
}

TEST_CASE("record_text: ids in memory of every size of vocabulary keep marks") {
  for (const std::int64_t vocab_size : {256, 32768, 32769, 65536, 128256}) {
    const auto last = static_cast<TokenId>(vocab_size - 1);
    TokenMemory memory(vocab_size);
    memory.append(std::vector<TokenId>{0, last});
    memory.append(std::vector<TokenId>{marked(last), marked(0), 5});
    const TokenSourcePtr tokens = memory.finish();
    std::vector<TokenId> ids(5);
    tokens->copy_marked(0, ids);
    CHECK(ids == std::vector<TokenId>{0, last, marked(last), marked(0), 5});
    CHECK_THROWS_AS(TokenMemory(vocab_size).append(std::vector<TokenId>{marked(last + 1)}), InternalError);
  }
}

TEST_CASE("record_text: targets of a batch are those of responses, in windows that cut through prompts") {
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "a.jsonl", prompt_lines);
  const TokenSourcePtr tokens =
      split_corpus(open_corpus(std::vector{path}, byte_tokenizer), byte_tokenizer, 0).train;
  const EvaluationBatches batches(tokens, byte_tokenizer, {.sequence_length = 4}, 2);
  const TokenBatch batch = batches.at(0);
  const auto values = [](const Tensor& t) {
    const auto span = t.span<std::int64_t>();
    return std::vector<std::int64_t>(span.begin(), span.end());
  };
  constexpr std::int64_t kNone = kIgnoredTarget;
  CHECK(values(batch.tokens) == std::vector<std::int64_t>{'a', ' ', 'b', 'c', 'd', 0, 'e', 0});
  CHECK(values(batch.targets) == std::vector<std::int64_t>{kNone, kNone, 'c', 'd', 0, kNone, 0, 'f'});
  CHECK(batch.num_targets == 5);
  CHECK(batch.target_bytes == 3);
  CHECK(batches.num_predicted() == 8);
}

TEST_CASE("record_text: token files are tokenized anew for other templates, and for no other reason") {
  const TemporaryFolder folder;
  const std::vector<std::string> inputs = {write_file(folder / "a.jsonl", prompt_lines)};
  TokenizeOptions options;
  options.resume = true;
  CHECK(tokenize_to_folder(inputs, folder / "all", byte_tokenizer, options).kept == 0);
  CHECK(tokenize_to_folder(inputs, folder / "all", byte_tokenizer, options).kept == 1);
  options.text.records.prompt = "Q: {prompt}";
  CHECK(tokenize_to_folder(inputs, folder / "all", byte_tokenizer, options).kept == 0);
  CHECK(tokenize_to_folder(inputs, folder / "all", byte_tokenizer, options).kept == 1);
}
