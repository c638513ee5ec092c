#include "train/apps/serve/requests.h"

#include <catch2/catch.hpp>
#include <string>

#include "train/base/http/request_error.h"

using namespace moh;

namespace {

std::string refusal(std::string_view body, bool is_chat = false) {
  try {
    is_chat ? (void)parse_chat_request(body) : (void)parse_completion_request(body);
  } catch (const RequestError& error) {
    CHECK(error.status() == 400);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("serve: a request says little, and the rest has defaults") {
  const CompletionRequest request = parse_completion_request(R"({"prompt": "The head"})");
  REQUIRE(request.prompts.size() == 1);
  CHECK(std::get<std::string>(request.prompts[0]) == "The head");
  CHECK(request.max_tokens == 16);
  CHECK(request.pick.temperature == 1.0);
  CHECK(request.pick.top_p == 1.0);
  CHECK(request.pick.top_k == 0);
  CHECK_FALSE(request.seed);
  CHECK(request.stop.empty());
  CHECK(request.n == 1);
  CHECK_FALSE((request.echo || request.stream || request.include_usage));
  CHECK_FALSE(request.logprobs);
}

TEST_CASE("serve: every parameter is read") {
  const CompletionRequest request = parse_completion_request(
      R"({"model": "m", "prompt": [[1, 2], [3]], "max_tokens": 7, "temperature": 0, "top_p": 0.5, "top_k": 3,
          "seed": -2, "stop": ["a", "b"], "n": 2, "echo": true, "logprobs": 5, "stream": true,
          "stream_options": {"include_usage": true}, "best_of": 2, "user": "u", "suffix": null})");
  CHECK(request.model == "m");
  REQUIRE(request.prompts.size() == 2);
  CHECK(std::get<std::vector<TokenId>>(request.prompts[0]) == std::vector<TokenId>{1, 2});
  CHECK(std::get<std::vector<TokenId>>(request.prompts[1]) == std::vector<TokenId>{3});
  CHECK(request.max_tokens == 7);
  CHECK(request.pick.temperature == 0.0);
  CHECK(request.pick.top_p == 0.5);
  CHECK(request.pick.top_k == 3);
  CHECK(request.seed == static_cast<std::uint64_t>(-2));
  CHECK(request.stop == std::vector<std::string>{"a", "b"});
  CHECK(request.n == 2);
  CHECK((request.echo && request.stream && request.include_usage));
  CHECK(request.logprobs == 5);
}

TEST_CASE("serve: prompts have four forms") {
  const auto prompts = [](const std::string& prompt) {
    return parse_completion_request("{\"prompt\": " + prompt + "}").prompts;
  };
  CHECK(prompts("\"a\"") == std::vector<Prompt>{std::string("a")});
  CHECK(prompts("[\"a\", \"\"]") == std::vector<Prompt>{std::string("a"), std::string()});
  CHECK(prompts("[0, 2147483647]") == std::vector<Prompt>{std::vector<TokenId>{0, 2147483647}});
  CHECK(prompts("[[], [5]]") == std::vector<Prompt>{std::vector<TokenId>{}, std::vector<TokenId>{5}});
  for (const char* wrong : {"1", "{}", "[]", "[1, \"a\"]", "[\"a\", 1]", "[[1], \"a\"]", "[[1], [\"a\"]]",
                            "[null]", "[{}]", "[-1]", "[2147483648]", "[1.0]", "[[[1]]]", "true"})
    CHECK_THAT(refusal(std::string("{\"prompt\": ") + wrong + "}"), Catch::StartsWith("prompt: expected"));
  CHECK(refusal("{}") ==
        "prompt: expected a text, a list of texts, a list of token ids, or a list of such lists, found none");
}

TEST_CASE("serve: a body that is no JSON object is refused before it takes much memory") {
  CHECK_THAT(refusal(""), Catch::StartsWith("body: not JSON"));
  CHECK_THAT(refusal("{\"prompt\": \"a\"} x"), Catch::StartsWith("body: not JSON"));
  CHECK_THAT(refusal("{\"prompt\": \"\xFF\"}"), Catch::StartsWith("body: not JSON"));
  CHECK_THAT(refusal("{\"prompt\": \"a\", \"seed\": 1e999}"), Catch::StartsWith("body: not JSON"));
  CHECK(refusal("[]") == "body: expected an object, found a list of 0");
  CHECK(refusal("{\"prompt\": " + std::string(1 << 20, '[')) ==
        "body: expected JSON nested at most 8 deep, found more");
  CHECK(refusal("{\"prompt\": \"a\", \"prompt\": \"b\"}") ==
        "body: expected each key once, found 'prompt' twice");
  CHECK(refusal("{\"prompt\": \"a\", \"logit_bias\": {\"1\": 0, \"1\": 0}}") ==
        "body: expected each key once, found '1' twice");
}

TEST_CASE("serve: a body is read no further than its first fault") {
  // The rest is no JSON, so that whoever reads on says so.
  CHECK(refusal("{\"prompt\": \"a\", \"k0\": 1, ###") == "unknown parameter 'k0'");
  CHECK(refusal("{\"prompt\": [[[[[[[[[[ ###") == "body: expected JSON nested at most 8 deep, found more");
  std::string lists = "{\"prompt\": [";
  for (int i = 0; i < 2000; ++i) lists += "[],";
  CHECK(refusal(lists + "###") == "body: expected at most 1536 texts, lists and keys, found more");
  std::string keys = "{\"logit_bias\": {";
  for (int i = 0; i < 2000; ++i) keys += "\"" + std::to_string(i) + "\":1,";
  CHECK(refusal(keys + "###") == "body: expected at most 1536 texts, lists and keys, found more");
  std::string ids = "{\"prompt\": [1";
  for (int i = 0; i < 1100; ++i) ids += ",1";
  const auto read_ids = [&](std::int64_t positions) {
    return parse_completion_request(ids + "]}", {.prompts = 2, .prompt_tokens = positions}).prompts.size();
  };
  CHECK(read_ids(1000) == 1);
  CHECK_THROWS_WITH(read_ids(10), "body: expected at most 1046 numbers, found more");
}

TEST_CASE("serve: what is no JSON is said with its place") {
  CHECK_THAT(refusal("{\"prompt\": nul}"),
             Catch::StartsWith("body: not JSON: line 1, column 15: syntax error"));
  CHECK_THAT(refusal("{\n\"a"), Catch::StartsWith("body: not JSON: line 2, column"));
  CHECK_THAT(refusal("{\"seed\": 1e999}"), Catch::StartsWith("body: not JSON: byte 14: number overflow"));
  for (const char* body : {"", "{", "{]", "\x01", "{\"a\"", "{\"seed\": 1e999}", "{\"prompt\": \"\\ud800\"}"})
    CHECK_THAT(refusal(body), !Catch::Contains("json.exception"));
}

TEST_CASE("serve: stop texts are bounded together") {
  const std::string half(9000, 'a');
  CHECK(refusal("{\"prompt\": \"a\", \"stop\": [\"" + half + "\"]}") == "accepted");
  CHECK(refusal("{\"prompt\": \"a\", \"stop\": [\"" + half + "\", \"" + half + "\"]}") ==
        "stop: expected texts of at most 16384 bytes together, found 18000");
}

TEST_CASE("serve: what a server does not do is refused, not left out") {
  CHECK(refusal(R"({"prompt": "a", "beams": 4})") == "unknown parameter 'beams'");
  CHECK(refusal(R"({"prompt": "a", "suffix": "b"})") ==
        "suffix: expected none (this server continues texts), found \"b\"");
  CHECK(refusal(R"({"prompt": "a", "max_tokens": 0})") ==
        "max_tokens: expected 1 or more without echo, found 0");
  CHECK(refusal(R"({"prompt": "a", "max_tokens": 0, "echo": true})") == "accepted");
  CHECK(refusal(R"({"prompt": "a", "temperature": 1e300})") == "accepted");
  CHECK(refusal(R"({"prompt": "a", "user": 1})") == "user: expected a text, found 1");
}

TEST_CASE("serve: requests to the tokenizer") {
  CHECK(parse_tokenize_request(R"({"prompt": ""})").prompt.empty());
  CHECK(parse_tokenize_request(R"({"prompt": "a"})").add_special_tokens);
  CHECK_FALSE(parse_tokenize_request(R"({"prompt": "a", "add_special_tokens": false})").add_special_tokens);
  CHECK_THROWS_WITH(parse_tokenize_request("{}"), "prompt: expected a text, or messages, found none");
  CHECK_THROWS_WITH(parse_tokenize_request(R"({"prompt": "a", "b": 1})"), "unknown parameter 'b'");
  CHECK(parse_detokenize_request(R"({"tokens": [4, 5]})").tokens == std::vector<TokenId>{4, 5});
  CHECK_THROWS_WITH(parse_detokenize_request("{}"), "tokens: expected a list of token ids, found none");
  CHECK_THROWS_WITH(parse_detokenize_request(R"({"tokens": ["a"]})"),
                    "tokens: expected token ids, found \"a\"");
}

TEST_CASE("serve: a chat is read") {
  const ChatRequest request = parse_chat_request(
      R"({"model": "m", "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"},
          {"type": "text", "text": "c"}], "name": null}, {"role": "assistant", "content": "", "tool_calls": null}],
          "max_completion_tokens": 7, "temperature": 0, "top_p": 0.5, "seed": 3, "stop": "x", "n": 2, "logprobs": true,
          "top_logprobs": 5, "stream": true, "stream_options": {"include_usage": true}, "tools": [], "tool_choice": "none",
          "response_format": {"type": "text"}, "user": "u"})");
  CHECK(request.messages == std::vector<ChatMessage>{{"system", "a"}, {"user", "b\nc"}, {"assistant", ""}});
  CHECK(request.max_tokens == 7);
  CHECK(request.answer.model == "m");
  CHECK(request.answer.n == 2);
  CHECK(request.answer.logprobs == 5);
  CHECK((request.answer.stream && request.answer.include_usage));
  const ChatRequest little = parse_chat_request(R"({"messages": [{"role": "user", "content": "a"}]})");
  CHECK_FALSE(little.max_tokens);
  CHECK_FALSE(little.answer.logprobs);
  CHECK(parse_tokenize_request(R"({"messages": [{"role": "user", "content": "a"}]})").messages ==
        little.messages);
}

TEST_CASE("serve: what a chat cannot be is refused by name") {
  const auto refused = [](const std::string& more,
                          const std::string& messages = R"([{"role": "user", "content": "a"}])") {
    return refusal("{\"messages\": " + messages + (more.empty() ? "" : ", ") + more + "}", /*is_chat=*/true);
  };
  CHECK(refused("") == "accepted");
  CHECK(refused("\"tools\": [{}]") == "tools: expected none (this server calls no tools), found a list of 1");
  CHECK(refused("\"tool_choice\": \"auto\"") ==
        "tool_choice: expected none (this server calls no tools), found \"auto\"");
  CHECK_THAT(refused("\"response_format\": {\"type\": \"json_object\"}"),
             Catch::StartsWith("response_format: expected"));
  CHECK(refused("\"top_logprobs\": 3") == "top_logprobs: expected none without logprobs, found 3");
  CHECK_THAT(refused("\"logprobs\": 3"), Catch::StartsWith("logprobs: expected true or false"));
  CHECK_THAT(refused("\"max_tokens\": 3, \"max_completion_tokens\": 4"),
             Catch::StartsWith("max_tokens: expected"));
  CHECK(refused("\"max_tokens\": 3, \"max_completion_tokens\": 3") == "accepted");
  CHECK(refused("\"prompt\": \"a\"") == "unknown parameter 'prompt'");
  CHECK(refused("", "[]") == "messages: expected a list of 1 to 2048 messages, found a list of 0");
  CHECK_THAT(
      refused("", R"([{"role": "tool", "content": "a"}])"),
      Catch::StartsWith("messages[0].role: expected system, user or assistant (this server calls no tools)"));
  CHECK_THAT(refused("", R"([{"role": "developer", "content": "a"}])"),
             Catch::StartsWith("messages[0].role: expected"));
  CHECK_THAT(refused("", R"([{"role": "user"}])"), Catch::StartsWith("messages[0].content: expected a text"));
  CHECK_THAT(refused("", R"([{"role": "user", "content": [{"type": "image_url"}]}])"),
             Catch::EndsWith("found a list with another part"));
  CHECK_THAT(refused("", R"([{"role": "user", "content": "a", "name": "b"}])"),
             Catch::EndsWith("which this server does not know"));
  std::string many;
  for (int i = 0; i < 2049; ++i) many += R"({"role": "user", "content": "a"},)";
  many.back() = ']';
  CHECK_THAT(refused("", "[" + many), Catch::StartsWith("messages: expected a list of 1 to 2048 messages"));
}
