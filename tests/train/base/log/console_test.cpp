#include "train/base/log/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/support/environment_scope.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"

using namespace moh;

namespace {

/// The two ends of a pipe.
class Pipe {
 public:
  Pipe() {
    REQUIRE(::pipe(fds_.data()) == 0);
    ::fcntl(fds_[0], F_SETFL, O_NONBLOCK);
    ::fcntl(fds_[1], F_SETPIPE_SZ, 1 << 20);
  }
  ~Pipe() {
    ::close(fds_[0]);
    ::close(fds_[1]);
  }
  int input() const { return fds_[1]; }
  /// The output since the last call.
  std::string take() const {
    std::string text;
    std::array<char, 65536> block;
    for (ssize_t n; (n = ::read(fds_[0], block.data(), block.size())) > 0;) {
      text.append(block.data(), static_cast<std::size_t>(n));
    }
    return text;
  }

 private:
  std::array<int, 2> fds_{};
};

/// A pseudo terminal.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(master_ >= 0);
    REQUIRE(::grantpt(master_) == 0);
    REQUIRE(::unlockpt(master_) == 0);
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    REQUIRE(slave_ >= 0);
  }
  ~Terminal() {
    ::close(slave_);
    ::close(master_);
  }
  int fd() const { return slave_; }
  void resize(unsigned short columns) const {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    REQUIRE(::ioctl(master_, TIOCSWINSZ, &size) == 0);
  }

 private:
  int master_;
  int slave_ = -1;
};

constexpr TerminalTraits kPlain{};
constexpr TerminalTraits kScreen{.is_terminal = true};

/// The screen of a terminal of unlimited width after `bytes`: its lines, the last without a newline.
std::string rendered(std::string_view bytes) {
  std::string screen, line;
  std::size_t column = 0;
  while (!bytes.empty()) {
    if (bytes.starts_with("\x1b[K")) {
      line.resize(column);
      bytes.remove_prefix(3);
      continue;
    }
    const char c = bytes.front();
    bytes.remove_prefix(1);
    if (c == '\r') {
      column = 0;
    } else if (c == '\n') {
      screen += line + "\n";
      line.clear();
      column = 0;
    } else {
      line.resize(std::max(line.size(), column + 1), ' ');
      line[column++] = c;
    }
  }
  return screen + line;
}

}  // namespace

TEST_CASE("console: lines go above the status line, which is drawn again below them") {
  const Pipe pipe;
  Console console(pipe.input(), kScreen);
  console.set_status("step 1");
  console.print("one");
  console.set_status("step 22");
  console.print("two\nthree\n");
  console.set_status("step 3");
  const std::string bytes = pipe.take();
  CHECK(rendered(bytes) == "one\ntwo\nthree\nstep 3");
  console.clear_status();
  CHECK(rendered(bytes + pipe.take()) == "one\ntwo\nthree\n");
  console.clear_status();
  CHECK(pipe.take().empty());  // nothing left to clear
}

TEST_CASE("console: a pipe gets lines only, without any control character") {
  const Pipe pipe;
  Console console(pipe.input(), kPlain);
  console.set_status("step 1");
  console.print("one");
  console.clear_status();
  CHECK(pipe.take() == "one\n");
}

TEST_CASE("console: log lines and status of several threads never tear each other") {
  const Pipe pipe;
  {
    auto console = std::make_shared<Console>(pipe.input(), kScreen);
    start_logging(console, "info");
    std::vector<std::thread> threads;
    for (char name : {'a', 'b'}) {
      threads.emplace_back([name] {
        for (int i = 0; i < 200; ++i) log_info(std::string(20, name));
      });
    }
    for (int i = 0; i < 400; ++i) console->set_status(std::string(30, '='));
    for (std::thread& thread : threads) thread.join();
    console->clear_status();
  }
  const std::string screen = rendered(pipe.take());
  int lines = 0;
  for (std::size_t at = 0; at < screen.size(); ++lines) {
    const std::size_t end = screen.find('\n', at);
    const std::string line = screen.substr(at, end - at);
    const std::string message = line.substr(line.find(": ") + 2);
    CHECK((message == std::string(20, 'a') || message == std::string(20, 'b')));
    at = end + 1;
  }
  CHECK(lines == 400);
  start_logging(std::make_shared<Console>(STDERR_FILENO));
}

TEST_CASE("console: a stream whose reader is gone is ignored") {
  const Terminal terminal;
  Console console(-1, kScreen);
  CHECK_NOTHROW(console.print("one"));
  CHECK_NOTHROW(console.set_status("step 1"));
}

TEST_CASE("console: a stream that nobody reads is waited for once, and told what it has missed") {
  const Pipe pipe;
  ::fcntl(pipe.input(), F_SETPIPE_SZ, 4096);
  const std::string line(99, 'x');
  const auto seconds_of = [](auto&& work) {
    const double begin = monotonic_seconds();
    work();
    return monotonic_seconds() - begin;
  };
  {
    Console console(pipe.input(), kPlain, /*patience_seconds=*/0.2);
    const double waited = seconds_of([&] {
      for (int i = 0; i < 20'000; ++i) console.print(line);  // 2 MB
    });
    CHECK(waited >= 0.2);
    CHECK(waited < 5);
    std::string seen;
    for (int i = 0; i < 2000 && seen.find("missing") == std::string::npos; ++i) {
      seen += pipe.take();
      console.print(line);
    }
    const std::size_t notice = seen.find('(');
    REQUIRE(notice != std::string::npos);
    CHECK(notice > Console::kMostHeldBytes / 2);
    CHECK(notice < Console::kMostHeldBytes + 2000 * 100);  // with lines that found room meanwhile
    CHECK(seen.find(" lines are missing here: nobody read this stream for a while)\n") != std::string::npos);
    const auto missing = std::stoll(seen.substr(notice + 1));
    CHECK(missing > 0);
    CHECK(static_cast<long long>(notice / 100) + missing >= 20'000);
    seen.erase(notice);
    CHECK(seen.find_first_not_of("x\n") == std::string::npos);
    pipe.take();
    console.print("again");
    CHECK(pipe.take().ends_with("again\n"));
    for (int i = 0; i < 100; ++i) console.print(line);
  }
  CHECK(pipe.take().size() <= 4096);  // the end does not wait for long
}

TEST_CASE("console: a terminal whose output is stopped is not waited for, either") {
  const Terminal terminal;
  Console console(terminal.fd(), kScreen, /*patience_seconds=*/0.1);
  const double begin = monotonic_seconds();
  for (int i = 0; i < 10'000; ++i) {
    console.print(std::string(70, 'x'));
    console.set_status("step " + std::to_string(i));
  }
  CHECK(monotonic_seconds() - begin < 5);
}

TEST_CASE("console: a file gets all lines, those before it among them, and no colours") {
  const TemporaryFolder folder;
  const Pipe pipe;
  const TerminalTraits colored{.is_terminal = true, .color = true};
  {
    Console console(pipe.input(), colored);
    console.print("one", Tone::kWarning);
    console.set_status("step 1");
    console.copy_to(std::make_unique<LogFile>(folder / "log"));
    console.print("two\nthree\n", Tone::kError);
  }
  CHECK(read_file(folder / "log") == "one\ntwo\nthree\n");
  CHECK(rendered(pipe.take()) == "\x1b[33mone\x1b[0m\n\x1b[31mtwo\nthree\x1b[0m\n");
  {
    Console console(pipe.input(), kPlain);
    console.copy_to(std::make_unique<LogFile>(folder / "log"));
    console.print("four");
  }
  CHECK(read_file(folder / "log") == "one\ntwo\nthree\nfour\n");
  std::filesystem::create_symlink(folder / "log", folder / "link");
  CHECK_THAT(message_of<StorageError>([&] { LogFile(folder / "link"); }),
             Catch::Contains("found a symbolic link"));
  CHECK_THAT(message_of<StorageError>([] { LogFile("/dev/full"); }), Catch::Contains("a regular file"));
}

TEST_CASE("console: a terminal is recognised, with its colours, characters and width") {
  const Terminal terminal;
  const EnvironmentScope term("TERM", "xterm-256color"), no_color("NO_COLOR", nullptr),
      all("LC_ALL", "de_CH.UTF-8");
  CHECK(detect_terminal(terminal.fd()).is_terminal);
  CHECK(detect_terminal(terminal.fd()).color);
  CHECK(detect_terminal(terminal.fd()).unicode);

  Console console(terminal.fd());
  terminal.resize(100);
  CHECK(console.width() == 100);
  terminal.resize(43);
  CHECK(console.width() == 43);
  terminal.resize(0);
  CHECK(console.width() == 80);

  const Pipe pipe;
  CHECK_FALSE(detect_terminal(pipe.input()).is_terminal);
  CHECK_FALSE(detect_terminal(pipe.input()).color);
  CHECK(Console(pipe.input()).width() == 80);
}

TEST_CASE("console: NO_COLOR, TERM=dumb and the locale are respected") {
  const Terminal terminal;
  const EnvironmentScope term("TERM", "xterm"), all("LC_ALL", nullptr), type("LC_CTYPE", nullptr),
      lang("LANG", nullptr);
  {
    const EnvironmentScope no_color("NO_COLOR", "1");
    CHECK(detect_terminal(terminal.fd()).is_terminal);
    CHECK_FALSE(detect_terminal(terminal.fd()).color);
  }
  {
    const EnvironmentScope dumb("TERM", "dumb");
    CHECK_FALSE(detect_terminal(terminal.fd()).is_terminal);
  }
  {
    const EnvironmentScope none("TERM", nullptr);
    CHECK_FALSE(detect_terminal(terminal.fd()).is_terminal);
  }
  CHECK_FALSE(detect_terminal(terminal.fd()).unicode);
  const EnvironmentScope utf8("LANG", "en_US.utf8");
  CHECK(detect_terminal(terminal.fd()).unicode);
  const EnvironmentScope c("LC_ALL", "C");  // goes before LANG
  CHECK_FALSE(detect_terminal(terminal.fd()).unicode);
}

TEST_CASE("console: the log level comes from the argument, then from MOH_LOG") {
  const Pipe pipe;
  const auto console = std::make_shared<Console>(pipe.input(), kPlain);
  {
    const EnvironmentScope level("MOH_LOG", "error");
    start_logging(console);
    log_warning("hidden");
    log_error("shown {}");                              // braces are text, not a format
    CHECK(pipe.take().find("error: shown {}\n") == 9);  // behind "HH:MM:SS "
    start_logging(console, "debug");
    log_debug("detail");
    CHECK(pipe.take().find("debug: detail\n") == 9);
  }
  {
    const EnvironmentScope level("MOH_LOG", "loud");
    CHECK_THROWS_AS(start_logging(console), ConfigError);
    CHECK_THROWS_WITH(start_logging(console),
                      "MOH_LOG: log level: expected trace, debug, info, warning, error or off, found 'loud'");
    CHECK_THROWS_WITH(start_logging(console, "x"), Catch::StartsWith("--log-level: "));
  }
  const EnvironmentScope level("MOH_LOG", nullptr);
  start_logging(console);
  log_debug("hidden");
  log_info("shown");
  CHECK(pipe.take().find("info: shown\n") == 9);
  start_logging(std::make_shared<Console>(STDERR_FILENO));
}

TEST_CASE("console: the terminal that mpirun gives its processes is not taken for one") {
  const Terminal terminal;
  const EnvironmentScope term("TERM", "xterm"), ranks("OMPI_COMM_WORLD_SIZE", "2");
  CHECK_FALSE(detect_terminal(terminal.fd()).is_terminal);  // the parent has nothing open there
}

TEST_CASE("console: MOH_PROGRESS chooses between a bar and lines") {
  const Terminal terminal;
  const Pipe pipe;
  const EnvironmentScope term("TERM", "xterm");
  {
    const EnvironmentScope bar("MOH_PROGRESS", "bar"), ranks("OMPI_COMM_WORLD_SIZE", "2");
    CHECK(detect_terminal(terminal.fd()).is_terminal);
    CHECK(detect_terminal(pipe.input()).is_terminal);
  }
  {
    const EnvironmentScope lines("MOH_PROGRESS", "lines");
    CHECK_FALSE(detect_terminal(terminal.fd()).is_terminal);
  }
  for (const char* usual : {"auto", ""}) {
    const EnvironmentScope chosen("MOH_PROGRESS", usual);
    CHECK(detect_terminal(terminal.fd()).is_terminal);
    CHECK_NOTHROW(check_progress_variable());
  }
  const EnvironmentScope wrong("MOH_PROGRESS", "none");
  CHECK_THAT(message_of<ConfigError>(check_progress_variable),
             Catch::Contains("MOH_PROGRESS: expected auto, bar or lines, found 'none'"));
}
