#include "train/base/http/http_server.h"

#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "train/base/http/failure_log.h"
#include "train/base/http/listen_socket.h"
#include "train/base/http/mailbox.h"
#include "train/base/http/work_queue.h"
#include "train/base/log/progress.h"

namespace moh {

namespace {

/// Threads that answer requests with small bodies, and the size of a large one.
constexpr std::size_t kThreads = 2, kLargeBody = 1 << 20;
/// Bodies that have not been answered take at most this, and at least some of the largest.
constexpr std::size_t kHeldBytes = 64 << 20, kHeldLimits = 8;
/// Connections that only wait for their client to read a refusal.
constexpr std::size_t kMostLingering = 256;
constexpr int kAcceptedAtOnce = 256;
constexpr double kPauseSeconds = 0.1;

/// A descriptor for each connection, as far as the system allows it.
void raise_descriptor_limit(int max_connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(max_connections) + kMostLingering + 256;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

struct HttpServer::Implementation {
  using Id = std::uint64_t;

  Implementation(const HttpOptions& given, Handler handles, Observer observes, ConnectionCounts& counted)
      : options(given),
        handler(std::move(handles)),
        observer(std::move(observes)),
        counts(counted),
        listener(options.command, options.host, options.port),
        small(kThreads),
        large(1),
        polling([this] { mailbox->post([this] { ended = true; }); }) {
    raise_descriptor_limit(options.max_connections);
    ::mallopt(M_MMAP_THRESHOLD, kLargeBody);  // what held a large body goes back to the system
    polling.start(kHttpThreads, 1, [this] { run(); });
  }

  void run() {
    while (!ended) {
      try {
        turn();
      } catch (const std::exception& error) {
        log_failure(error);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // no memory: others give some back
      }
    }
    for (auto& [id, connection] : connections) connection->close();
  }

  /// Waits until something has happened, and does what is due.
  void turn() {
    wait();
    now = monotonic_seconds();
    for (const std::function<void()>& work : mailbox->take()) guarded(work);
    if (polled[1].revents != 0) accept_all();
    for (std::size_t i = 0; i < polled_ids.size(); ++i) {
      const auto found = connections.find(polled_ids[i]);
      if (found == connections.end()) continue;
      HttpConnection& connection = *found->second;
      const short events = polled[i + 2].revents;
      const bool late = now >= connection.deadline();
      if (events == 0 && !late) continue;
      attempt(connection, [&] { events != 0 ? connection.ready(events, now) : connection.expire(now); });
      if (connection.held_bytes() > kLargeBody && held > most_held())
        attempt(connection, [&] { refuse_body(connection); });
    }
    for (const auto& entry : connections) attempt(*entry.second, [&] { serve(entry.first, *entry.second); });
    std::erase_if(connections, [](const auto& entry) { return entry.second->closed(); });
    counts.open = std::ssize(connections);
  }

  void wait() {
    polled = {{mailbox->fd(), POLLIN, 0}, {now < accept_again ? -1 : listener.fd(), POLLIN, 0}};
    polled_ids.clear();
    held = 0;
    double next = now + (now < accept_again ? kPauseSeconds : 1);
    for (const auto& [id, connection] : connections) {
      polled.push_back({connection->fd(), connection->events(), 0});
      polled_ids.push_back(id);
      next = std::min(next, connection->deadline());
      held += connection->held_bytes();
    }
    const double left = std::max(next - monotonic_seconds(), 0.0);
    ::poll(polled.data(), polled.size(), static_cast<int>(std::ceil(left * 1000)));
  }

  /// Only the connection that something goes wrong for ends.
  template <class Action>
  void attempt(HttpConnection& connection, Action action) {
    try {
      action();
    } catch (const std::exception& error) {
      connection.close();
      log_failure(error);
    }
  }

  static void guarded(const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception& error) {
      log_failure(error);
    }
  }

  // Connections.

  void accept_all() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      const int fd = listener.accept();
      if (fd >= 0) {
        admit(connection_of(fd));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        if (!end_lingering() && !(make_room() && end_lingering())) accept_again = now + kPauseSeconds;
        return;
      } else if (errno != ECONNABORTED && errno != EINTR) {
        return;
      }
    }
  }

  std::unique_ptr<HttpConnection> connection_of(int fd) {
    try {
      return std::make_unique<HttpConnection>(fd, options.limits, now);
    } catch (...) {
      ::close(fd);  // there is no object yet that would
      throw;
    }
  }

  void admit(std::unique_ptr<HttpConnection> connection) {
    const auto lingering = static_cast<std::size_t>(
        std::ranges::count_if(connections, [](const auto& entry) { return entry.second->lingers(); }));
    if (stopping) {
      connection->refuse(503, "the server is stopping; try again later", now);
    } else if (connections.size() - lingering >= static_cast<std::size_t>(options.max_connections) &&
               !make_room()) {
      ++counts.refused;
      connection->refuse(503, "there are too many connections; try again later", now);
    }
    if (lingering >= kMostLingering) end_lingering();
    connections.emplace(++last_id, std::move(connection));
  }

  /// Gives up the connection that can be spared best; false if there is none.
  bool make_room() {
    std::pair<int, double> best;
    HttpConnection* found = nullptr;
    for (const auto& [id, connection] : connections) {
      const std::optional<int> spare = connection->spare(now);
      if (!spare || (found != nullptr && best <= std::pair(*spare, connection->last_progress()))) continue;
      best = {*spare, connection->last_progress()};
      found = connection.get();
    }
    if (found != nullptr) attempt(*found, [&] { found->give_up(now); });
    return found != nullptr;
  }

  /// Ends the connection that has lingered longest; false if there is none.
  bool end_lingering() {
    const auto oldest =
        std::ranges::find_if(connections, [](const auto& entry) { return entry.second->lingers(); });
    if (oldest == connections.end()) return false;
    report(*oldest->second);
    connections.erase(oldest);
    return true;
  }

  std::size_t most_held() const { return std::max(kHeldBytes, kHeldLimits * options.limits.body_bytes); }

  void refuse_body(HttpConnection& connection) {
    held -= connection.held_bytes();
    if (connection.take_request() || connection.receives())
      connection.refuse(503, "the bodies of other requests take too much memory; try again later", now);
  }

  // Requests.

  /// Does what a connection asks for.
  void serve(Id id, HttpConnection& connection) {
    if (std::optional<HttpRequest> request = connection.take_request()) hand_over(id, std::move(*request));
    if (std::shared_ptr<ReplySource> source = connection.take_work()) advance(id, std::move(source));
    report(connection);
  }

  void report(HttpConnection& connection) {
    for (const AnsweredRequest& record : connection.take_records()) observer(record);
  }

  HttpConnection* find(Id id) {
    const auto found = connections.find(id);
    return found == connections.end() ? nullptr : found->second.get();
  }

  void hand_over(Id id, HttpRequest&& given) {
    const bool is_large = given.body.size() > kLargeBody;
    auto request = std::make_shared<HttpRequest>(std::move(given));
    (is_large ? large : small).post([this, box = mailbox, id, is_large, request = std::move(request)] {
      auto reply = std::make_shared<HttpReply>();
      try {
        *reply = handler(std::move(*request));
      } catch (...) {
        *reply = current_exception_reply();
      }
      if (is_large) ::malloc_trim(0);  // its parsed form took many small blocks
      box->post([this, id, reply = std::move(reply)] { answer(id, std::move(*reply)); });
    });
  }

  void answer(Id id, HttpReply reply) {
    const std::shared_ptr<ReplySource> source = reply.source;
    HttpConnection* const connection = find(id);
    if (connection != nullptr) attempt(*connection, [&] { connection->answer(std::move(reply), now); });
    if (!source) return;
    if (connection == nullptr || connection->closed()) return source->cancel();
    source->watch([this, box = mailbox, id] {
      box->post([this, id] {
        if (HttpConnection* const woken = find(id)) woken->wake();
      });
    });
  }

  void advance(Id id, std::shared_ptr<ReplySource> given) {
    small.post([this, box = mailbox, id, source = std::move(given)] {
      auto reply = std::make_shared<HttpReply>();
      bool goes_on = false;
      try {
        goes_on = source->advance(*reply);
      } catch (...) {
        *reply = current_exception_reply();
        source->cancel();
      }
      box->post([this, id, goes_on, reply = std::move(reply)] {
        HttpConnection* const connection = find(id);
        if (connection == nullptr) return;
        attempt(*connection, [&] { connection->advanced(goes_on, std::move(*reply), now); });
      });
    });
  }

  void drain() {
    stopping = true;
    for (auto& [id, connection] : connections) connection->drain();
  }

  const HttpOptions options;
  const Handler handler;
  const Observer observer;
  ConnectionCounts& counts;
  const std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
  const ListenSocket listener;

  // State of the thread that polls.
  std::map<Id, std::unique_ptr<HttpConnection>> connections;  // the oldest first
  Id last_id = 0;
  std::vector<pollfd> polled;
  std::vector<Id> polled_ids;
  std::size_t held = 0;
  double now = monotonic_seconds(), accept_again = 0;
  bool stopping = false, ended = false;

  // Their threads use all of the above.
  WorkQueue small, large;
  ThreadGroup polling;
};

HttpServer::HttpServer(const HttpOptions& options, Handler handler, Observer observer,
                       ConnectionCounts& counts)
    : implementation_(
          std::make_unique<Implementation>(options, std::move(handler), std::move(observer), counts)) {}

HttpServer::~HttpServer() = default;

std::string HttpServer::address() const {
  const std::string& host = implementation_->options.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return "http://" + (is_v6 ? "[" + host + "]" : host) + ":" +
         std::to_string(implementation_->listener.port());
}

void HttpServer::drain() {
  implementation_->mailbox->post([this] { implementation_->drain(); });
}

}  // namespace moh
