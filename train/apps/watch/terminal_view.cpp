#include "train/apps/watch/terminal_view.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "train/apps/status/status_report.h"
#include "train/base/io/printable.h"
#include "train/base/log/console.h"

namespace moh::watch {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLoss = "train/loss";
/// The other screen of a terminal, as editors use it, without a cursor; and back.
constexpr const char* kBegin = "\033[?1049h\033[?25l";
constexpr const char* kEnd = "\033[?25h\033[?1049l";
constexpr const char* kHome = "\033[H";
constexpr const char* kToLineEnd = "\033[K\n";
constexpr const char* kToScreenEnd = "\033[J";

ChartSize window_size(const TerminalTraits& traits) {
  ChartSize size{80, 24, traits.color};
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0) {
    size.columns = window.ws_col;
    size.rows = window.ws_row;
  }
  return size;
}

/// The first `columns` characters of a line.
std::string cut(const std::string& line, int columns) {
  std::size_t end = 0;
  for (int i = 0; i < columns && end < line.size(); ++i)
    end += std::max<std::size_t>(utf8_length(std::string_view(line).substr(end)), 1);
  return line.substr(0, end);
}

std::vector<std::string> status_lines(const std::vector<fs::path>& folders) {
  std::vector<RunStatus> runs;
  for (const fs::path& folder : folders) {
    runs.push_back(status_or_unreadable(folder));
    runs.back().folder = printable_path(folder);
  }
  std::vector<std::string> lines;
  std::istringstream text(status_text(runs));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TerminalView::TerminalView(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths)
    for (fs::path& run : run_folders(path)) folders_.push_back(std::move(run));
  for (const fs::path& run : std::span(folders_).first(std::min(folders_.size(), kMostCurves)))
    data_.push_back(std::make_unique<RunData>(run));
}

std::string TerminalView::frame(const ChartSize& size) {
  constexpr std::size_t kLeastChart = 6;
  const std::size_t rows = static_cast<std::size_t>(std::max(size.rows, 3));
  const std::size_t shown = std::min(folders_.size(), rows > 2 * kLeastChart ? rows - kLeastChart - 2 : 1);
  ChartSize chart = size;
  chart.rows = static_cast<int>(std::max(std::min(rows - shown - 2, rows * 2 / 3), kLeastChart));
  std::vector<std::vector<Point>> curves(data_.size());
  for (std::size_t i = 0; i < data_.size(); ++i) {
    while (data_[i]->advance({})) {
    }
    const double last = data_[i]->facts().last_step;
    data_[i]->with_points(kLoss, [&](std::span<const Point> points) {
      curves[i] = thinned(points, {0.0, last, 2 * size.columns});
    });
  }
  std::string text = "training loss\n";
  for (const std::string& line : braille_chart(curves, chart)) text += line + "\n";
  const std::vector<std::string> lines =
      status_lines({folders_.begin(), folders_.begin() + static_cast<std::ptrdiff_t>(shown)});
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool colored = size.color && i < curves.size();
    text += (colored ? curve_color(i) : "") + cut(lines[i], size.columns) + (colored ? kEndColor : "") + "\n";
  }
  if (shown < folders_.size()) text += "and " + std::to_string(folders_.size() - shown) + " more\n";
  return text;
}

void watch_in_terminal(const std::vector<fs::path>& paths, FunctionRef<bool()> stop) {
  constexpr int kTurns = 20;
  constexpr std::chrono::milliseconds kTurn(50);
  TerminalView view(paths);
  const TerminalTraits traits = detect_terminal(STDOUT_FILENO);
  if (!traits.is_terminal) {
    std::fputs(view.frame({80, 24, false}).c_str(), stdout);
    return;
  }
  std::fputs(kBegin, stdout);
  while (!stop()) {
    std::string lines;
    for (const char c : view.frame(window_size(traits))) lines += c == '\n' ? kToLineEnd : std::string(1, c);
    lines.resize(lines.size() - 1);  // a line end in the last row would scroll
    std::fputs((kHome + lines + kToScreenEnd).c_str(), stdout);
    std::fflush(stdout);
    for (int i = 0; i < kTurns && !stop(); ++i) std::this_thread::sleep_for(kTurn);
  }
  std::fputs(kEnd, stdout);
  std::fflush(stdout);
}

}  // namespace moh::watch
