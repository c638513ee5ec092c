#include "train/apps/watch/watch_api.h"

#include <arpa/inet.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "train/apps/watch/curves_json.h"
#include "train/apps/watch/page.h"
#include "train/apps/watch/run_files.h"
#include "train/base/http/request_error.h"
#include "train/base/http/request_target.h"

namespace moh::watch {

using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr std::size_t kMostDrawn = 200, kMostNames = 64;
constexpr int kMostColumns = 4000;

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) words.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

template <class Number>
Number number_of(const std::string& name, const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw bad_parameter(name, "a number", "'" + text + "'");
  return number;
}

std::string required(std::string_view query, const std::string& name) {
  if (std::optional<std::string> value = query_value(query, name)) return *value;
  throw bad_parameter(name, "a value", "none");
}

RequestError no_such_run() {
  return {404, "there is no such run; reload the page"};
}

template <class T>
OrderedJson or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

HttpReply json_reply(std::string body) {
  return {.body = std::move(body), .headers = {{"Cache-Control", "no-store"}}};
}

HttpReply json_reply(const OrderedJson& body) {
  return json_reply(body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

OrderedJson numbers_json(const std::vector<LastNumber>& numbers) {
  OrderedJson found = OrderedJson::object();
  for (const auto& [key, value] : numbers) found[key] = value;
  return found;
}

OrderedJson run_json(const ListedRun& run) {
  return {{"id", run.id},
          {"name", run.status.folder.string()},
          {"state", run.status.state},
          {"step", run.status.step},
          {"steps", or_null(run.status.steps)},
          {"seconds_left", or_null(run.status.seconds_left)},
          {"training", numbers_json(run.status.training)},
          {"validation", numbers_json(run.status.validation)},
          {"seed", run.kind.seed},
          {"group", run.kind.group},
          {"differs", run.kind.differs}};
}

const char* content_type_of(RunFile::Kind kind) {
  if (kind == RunFile::Kind::kImage) return "image/png";
  return kind == RunFile::Kind::kText ? "text/plain; charset=utf-8" : "application/json";
}

const char* word_of(RunFile::Kind kind) {
  if (kind == RunFile::Kind::kImage) return "image";
  return kind == RunFile::Kind::kText ? "text" : "trace";
}

/// The shares of a frame, by layer.
OrderedJson layers_of(const HeadFrames& heads, const HeadFrames::Frame& frame) {
  OrderedJson layers = OrderedJson::array();
  std::size_t at = 0;
  for (const std::uint32_t count : heads.heads()) {
    OrderedJson layer = OrderedJson::array();
    for (std::uint32_t i = 0; i < count; ++i) layer.push_back(frame.shares[at++] / 65535.0);
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace

bool is_own_host(std::string_view header, std::string_view host) {
  std::string name(header);
  if (const std::size_t end = name.find(']'); name.starts_with('[') && end != std::string::npos) {
    name = name.substr(1, end - 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  std::array<unsigned char, 16> address{};
  return name == "localhost" || name == host || ::inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), address.data()) == 1;
}

HttpReply WatchApi::answer(const HttpRequest& request) {
  if (!is_own_host(request.host, host_))
    throw RequestError(
        403,
        "expected this server's address as host, found another name; open it by its address, or start moh "
        "watch with --host NAME");
  if (request.method != "GET" && request.method != "HEAD") {
    HttpReply reply = error_reply(405, "expected method GET");
    reply.headers.emplace_back("Allow", "GET, HEAD");
    return reply;
  }
  if (request.path == "/") return page_reply();
  if (request.path == "/api/runs") return list();
  if (request.path == "/api/curves") return curves(request.query);
  if (request.path == "/api/heads") return heads(request.query);
  if (request.path == "/api/files") return files(request.query);
  if (request.path.starts_with("/files/")) return file(std::string_view(request.path).substr(7));
  throw RequestError(404, "there is nothing at this path");
}

HttpReply WatchApi::list() const {
  OrderedJson runs = OrderedJson::array();
  for (const ListedRun& run : runs_.list()) runs.push_back(run_json(run));
  return json_reply(OrderedJson{{"runs", std::move(runs)}});
}

/// runs=0,2&names=train/loss,eval/loss&columns=600[&from=0&to=100][&bands=1][&seen=REVISION]
HttpReply WatchApi::curves(std::string_view query) {
  CurvesRequest wanted;
  wanted.names = words_of(query_value(query, "names").value_or(""));
  if (wanted.names.size() > kMostNames) throw bad_parameter("names", "at most 64 names", "more");
  std::map<int, std::string> groups;
  if (query_value(query, "bands") == "1")
    for (const ListedRun& run : runs_.list()) groups[run.id] = run.kind.group;
  std::map<std::string, std::size_t> places;
  OrderedJson facts = OrderedJson::object();
  std::uint64_t revision = 0;
  double last_step = 0.0;
  const std::vector<std::string> ids = words_of(required(query, "runs"));
  if (ids.size() > kMostDrawn) throw bad_parameter("runs", "at most 200 runs", "more");
  for (const std::string& word : ids) {
    const int id = number_of<int>("runs", word);
    std::shared_ptr<const RunData> data = runs_.data_of(id);
    if (!data) throw no_such_run();
    const RunData::Facts known = data->facts();
    revision += known.revision;
    last_step = std::max<double>(last_step, known.last_step);
    facts[word] = {{"loaded", known.loaded}, {"last_step", known.last_step}, {"names", known.names}};
    const std::string group = groups.contains(id) ? groups[id] : "";
    const auto [place, is_new] =
        places.try_emplace(group.empty() ? "run " + word : group, wanted.drawn.size());
    if (is_new) wanted.drawn.emplace_back();
    wanted.drawn[place->second].ids.push_back(id);
    wanted.drawn[place->second].data.push_back(std::move(data));
  }
  std::string body =
      "{\"revision\":" + std::to_string(revision) + ",\"last_step\":" + std::to_string(last_step);
  if (query_value(query, "seen") == std::to_string(revision)) return json_reply(body + "}");
  wanted.window.from = number_of<double>("from", query_value(query, "from").value_or("0"));
  const std::string to = query_value(query, "to").value_or("");
  wanted.window.to = to.empty() ? last_step : number_of<double>("to", to);
  wanted.window.columns =
      std::clamp(number_of<int>("columns", query_value(query, "columns").value_or("600")), 1, kMostColumns);
  return json_reply(body + ",\"runs\":" + facts.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) +
                    ",\"curves\":" + curves_json(wanted) + "}");
}

/// run=0: the steps that have frames, and the heads of each layer; with step=N the last frame up to it.
HttpReply WatchApi::heads(std::string_view query) {
  const std::shared_ptr<const RunData> data = runs_.data_of(number_of<int>("run", required(query, "run")));
  if (!data) throw no_such_run();
  const HeadFrames heads = data->heads();
  const std::vector<HeadFrames::Frame>& frames = heads.frames();
  if (const std::optional<std::string> step = query_value(query, "step"); step && !frames.empty()) {
    const auto after = std::ranges::upper_bound(frames, number_of<std::uint32_t>("step", *step), {},
                                                &HeadFrames::Frame::step);
    const HeadFrames::Frame& frame = after == frames.begin() ? frames.front() : *(after - 1);
    return json_reply(OrderedJson{{"step", frame.step}, {"layers", layers_of(heads, frame)}});
  }
  OrderedJson steps = OrderedJson::array();
  for (const HeadFrames::Frame& frame : frames) steps.push_back(frame.step);
  return json_reply(OrderedJson{{"steps", std::move(steps)}, {"heads", heads.heads()}});
}

/// run=0: its files.
HttpReply WatchApi::files(std::string_view query) const {
  const std::filesystem::path folder = runs_.folder_of(number_of<int>("run", required(query, "run")));
  if (folder.empty()) throw no_such_run();
  OrderedJson found = OrderedJson::array();
  for (const RunFile& file : files_of(folder))
    found.push_back({{"kind", word_of(file.kind)}, {"name", file.name}, {"bytes", file.bytes}});
  return json_reply(OrderedJson{{"files", std::move(found)}});
}

/// ID/NAME.
HttpReply WatchApi::file(std::string_view path) const {
  const std::size_t slash = std::min(path.find('/'), path.size());
  const std::filesystem::path folder =
      runs_.folder_of(number_of<int>("run", std::string(path.substr(0, slash))));
  if (folder.empty()) throw no_such_run();
  const std::string name(path.substr(std::min(slash + 1, path.size())));
  const std::optional<RunFile::Kind> kind = kind_of_file(name);
  std::optional<std::string> bytes = kind ? read_run_file(folder, name) : std::nullopt;
  if (!bytes) throw RequestError(404, "the run has no such file, or it is a link or larger than 64 MiB");
  return {.content_type = content_type_of(*kind),
          .body = std::move(*bytes),
          .headers = {{"Cache-Control", "no-store"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Content-Security-Policy", "default-src 'none'; sandbox"}}};
}

}  // namespace moh::watch
