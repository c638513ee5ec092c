#include "train/base/log/progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <limits>

#include "train/base/log/format.h"

using namespace moh;

namespace {

constexpr TerminalTraits kAscii{.is_terminal = true};
constexpr TerminalTraits kUnicode{.is_terminal = true, .unicode = true};
const StepProgress some_step{
    .step = 500, .loss = 2.34567, .learning_rate = 3e-4, .items_per_s = 12345, .shares = {{"heads", 0.75}}};

/// Columns that UTF-8 text without wide characters takes, escape sequences not counted.
int columns(std::string_view text) {
  int count = 0;
  bool escape = false;
  for (char c : text) {
    if (c == '\x1b') escape = true;
    if (!escape && (static_cast<unsigned char>(c) & 0xC0) != 0x80) ++count;
    if (escape && c == 'm') escape = false;
  }
  return count;
}

std::string taken_from(int fd) {
  std::array<char, 65536> block;
  const ssize_t n = ::read(fd, block.data(), block.size());
  return {block.data(), static_cast<std::size_t>(n > 0 ? n : 0)};
}

}  // namespace

TEST_CASE("progress: the bar shows step, loss, rate, pace, heads and ETA") {
  CHECK(progress_bar(some_step, 1000, 83, 120, kAscii) ==
        "500/1000 [####################....................]  loss 2.3457  lr 3.00e-04  12.3k tok/s  heads "
        "75%  "
        "ETA 1:23");
  CHECK(progress_bar(some_step, 1000, 83, 120, kUnicode).find("500/1000 ▕████████████████████ ") == 0);
  StepProgress dense = some_step;
  dense.shares.clear();
  CHECK(progress_bar(dense, 1000, 83, 120, kAscii).find("heads") == std::string::npos);
}

TEST_CASE("progress: the bar fits every width and never the last column") {
  for (const TerminalTraits traits : {kAscii, kUnicode, TerminalTraits{true, true, true}}) {
    for (int width = 1; width < 200; ++width) {
      for (std::int64_t step : {0, 1, 333, 999, 1000}) {
        StepProgress progress = some_step;
        progress.step = step;
        INFO("width " << width << " step " << step);
        CHECK(columns(progress_bar(progress, 1000, 83, width, traits)) < width);
      }
    }
  }
}

TEST_CASE("format: sizes in bytes are read in decimal and binary units, and nothing else") {
  for (const auto& [text, bytes] :
       std::initializer_list<std::pair<const char*, std::int64_t>>{{"1", 1},
                                                                   {"24e9", 24'000'000'000},
                                                                   {"1.5 GiB", 1'610'612'736},
                                                                   {"10KB", 10'000},
                                                                   {"10kB", 10'000},
                                                                   {"2KiB", 2048},
                                                                   {"79.5 GiB", 85'362'475'008},
                                                                   {"0.5TB", 500'000'000'000},
                                                                   {"7 B", 7}}) {
    INFO(text);
    CHECK(parse_bytes(text) == bytes);
  }
  for (const char* text :
       {"", "GB", "0", "-1", "0.5", "5 bananas", "5gb", "5GBx", "1e19", "inf", "nan", " 5"}) {
    INFO(text);
    CHECK_FALSE(parse_bytes(text).has_value());
  }
}

TEST_CASE("progress: a narrow terminal keeps what matters most") {
  CHECK(progress_bar(some_step, 1000, 83, 60, kAscii) ==
        "500/1000  loss 2.3457  lr 3.00e-04  12.3k tok/s  ETA 1:23");
  CHECK(progress_bar(some_step, 1000, 83, 45, kAscii) == "500/1000  loss 2.3457  12.3k tok/s  ETA 1:23");
  CHECK(progress_bar(some_step, 1000, 83, 34, kAscii) == "500/1000  loss 2.3457  ETA 1:23");
  CHECK(progress_bar(some_step, 1000, 83, 25, kAscii) == "500/1000  loss 2.3457");
  CHECK(progress_bar(some_step, 1000, 83, 12, kAscii) == "500/1000");
  CHECK(progress_bar(some_step, 1000, 83, 6, kAscii) == "50%");
}

TEST_CASE("progress: a full bar is full, an empty one empty") {
  StepProgress progress = some_step;
  progress.step = 0;
  CHECK(progress_bar(progress, 10, -1, 120, kAscii).find("[........................................]") !=
        std::string::npos);
  progress.step = 10;
  CHECK(progress_bar(progress, 10, 0, 120, kAscii).find("[########################################]") !=
        std::string::npos);
  CHECK_NOTHROW(progress_bar(progress, 0, 0, 120, kUnicode));
}

TEST_CASE("progress: ETA follows the pace of this process, by a clock that does not jump") {
  double now = 1000.0;
  const auto console = std::make_shared<Console>(-1, TerminalTraits{});
  const ProgressReporter reporter(console, 1000, 600, [&] { return now; });
  CHECK(reporter.remaining_seconds(600) < 0);  // nothing known yet
  now += 50;
  CHECK(reporter.remaining_seconds(700) == Approx(150));  // 100 steps in 50 s, 300 to go
  CHECK(reporter.remaining_seconds(1000) == Approx(0));
  CHECK(reporter.remaining_seconds(1001) == Approx(0));
}

TEST_CASE("progress: ETA counts evaluations from the beginning, first by an estimate and then as they were") {
  double now = 0;
  ProgressReporter reporter(std::make_shared<Console>(-1, TerminalTraits{}), 100, 0, [&] { return now; });
  reporter.expect_evaluations([](std::int64_t step) { return (100 - step + 24) / 25; }, 10);
  now = 1;
  CHECK(reporter.remaining_seconds(1) == Approx(99 + 4 * 10));
  now = 20;
  CHECK(reporter.remaining_seconds(20) == Approx(80 + 4 * 10));
  now = 55;  // at step 25 the evaluation took 30 s
  reporter.add_evaluation(30);
  CHECK(reporter.remaining_seconds(25) == Approx(75 + 3 * 30));
}

TEST_CASE("progress: ETA is by later steps than the first, which takes longer") {
  double now = 0;
  ProgressReporter reporter(std::make_shared<Console>(-1, TerminalTraits{}), 100, 0, [&] { return now; });
  const auto step = [&](std::int64_t number, double seconds) {
    now += seconds;
    StepProgress progress = some_step;
    progress.step = number;
    reporter.update(progress);
  };
  step(1, 5);
  CHECK(reporter.remaining_seconds(1) == Approx(99 * 5));
  step(2, 1);
  step(3, 1);
  CHECK(reporter.remaining_seconds(3) == Approx(97));
}

TEST_CASE("progress: plain lines in a pipe, which on a terminal go above a bar") {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_NONBLOCK) == 0);
  double now = 0;
  {
    ProgressReporter reporter(std::make_shared<Console>(pipe[1], TerminalTraits{}), 1000, 0,
                              [&] { return now; });
    now = 50;
    reporter.update(some_step);
    CHECK(taken_from(pipe[0]).empty());
    reporter.log(some_step);
    CHECK(taken_from(pipe[0]) ==
          "step 500/1000  loss 2.3457  lr 3.00e-04  12.3k tok/s  heads 75%  ETA 0:50\n");
  }
  CHECK(taken_from(pipe[0]).empty());
  {
    ProgressReporter reporter(std::make_shared<Console>(pipe[1], kAscii), 1000, 0, [&] { return now; });
    reporter.update(some_step);
    CHECK(taken_from(pipe[0]).find("\r500/1000 ") == 0);
    now += 0.05;
    reporter.update(some_step);  // too soon
    CHECK(taken_from(pipe[0]).empty());
    reporter.log(some_step);
    CHECK_THAT(taken_from(pipe[0]), Catch::StartsWith("\r\x1b[Kstep 500/1000  loss 2.3457  lr 3.00e-04") &&
                                        Catch::Contains("\n500/1000 "));
    now += 0.06;
    reporter.update(some_step);
    CHECK_FALSE(taken_from(pipe[0]).empty());
    StepProgress last = some_step;
    last.step = 1000;
    reporter.update(last);  // the last step is always drawn
    CHECK(taken_from(pipe[0]).find("1000/1000") != std::string::npos);
    reporter.finish();
    CHECK(taken_from(pipe[0]) == "\r\x1b[K");
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_CASE("progress: the summary lists what is known") {
  RunSummary summary{.outcome = "finished",
                     .step = 2000,
                     .items = 4'096'000,
                     .elapsed_seconds = 100,
                     .train_loss = 1.5,
                     .validation_score = 1.61234,
                     .peak_memory_bytes = 300 << 20,
                     .peak_process_memory_bytes = 3 << 29,
                     .output_dir = "runs/quickstart"};
  CHECK(format_summary(summary) ==
        "training         finished at step 2000\n"
        "train loss       1.5000\n"
        "validation loss  1.6123\n"
        "time             1:40\n"
        "tokens           4.10M (41.0k/s)\n"
        "peak memory      300 MiB of tensors, 1.50 GiB of the process\n"
        "output           runs/quickstart\n");
}

TEST_CASE("progress: a run that had nothing left to do says nothing of its pace") {
  const std::string text =
      format_summary({.outcome = "finished", .step = 8, .items = 0, .elapsed_seconds = 0.5, .shares = {}});
  CHECK(text == "training  finished at step 8\ntime      0:01\n");
}

TEST_CASE("progress: what is done of a long piece of work, and how long the rest takes") {
  CHECK(describe_progress("eval", 0, 65'536, "tokens", 0) == "eval: 0 of 65.5k tokens, -:-- left");
  CHECK(describe_progress("eval", 500, 2000, "images", 10) == "eval: 500 of 2.00k images, 0:30 left");
}

TEST_CASE("progress: numbers for people") {
  CHECK(format_duration(7.4) == "0:07");
  CHECK(format_duration(754) == "12:34");
  CHECK(format_duration(3599.6) == "1:00:00");
  CHECK(format_duration(10930) == "3:02:10");
  CHECK(format_duration(187800) == "2d 04:10");
  CHECK(format_duration(-1) == "-:--");
  CHECK(format_duration(std::numeric_limits<double>::quiet_NaN()) == "-:--");
  CHECK(format_duration(std::numeric_limits<double>::infinity()) == "-:--");
  CHECK(format_count(0) == "0");
  CHECK(format_count(875) == "875");
  CHECK(format_count(999.7) == "1.00k");
  CHECK(format_count(12345) == "12.3k");
  CHECK(format_count(999999) == "1.00M");
  CHECK(format_count(-4.5e9) == "-4.50G");
  CHECK(format_count(std::numeric_limits<double>::quiet_NaN()) == "-");
  CHECK(format_bytes(640) == "640 B");
  CHECK(format_bytes(12'897'485) == "12.3 MiB");
  CHECK(format_bytes(3 * (std::int64_t{1} << 29)) == "1.50 GiB");
}
