#include "train/families/images/image_evaluation.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "ops/loss/cross_entropy.h"
#include "train/base/io/printable.h"
#include "train/families/images/evaluation_batches.h"

namespace moh {

namespace {

constexpr std::size_t kMostRows = 20;  // of the table
constexpr std::size_t kNameWidth = 24;

/// The counts of an evaluation by class, named by the source of its pictures: a table of classes, of many
/// those that are told worst; as JSON all of them with the confusion: {"classes": [{"name", "images", "top1",
/// "top5"}], "confusion": [[label, predicted, images]]}, the latter for pairs that occur.
class ClassDetails final : public EvaluationDetails {
 public:
  ClassDetails(ClassCounts counts, PictureSourcePtr source)
      : counts_(std::move(counts)), source_(std::move(source)) {}

  std::string table() const override {
    const std::vector<std::int64_t> labels = shown();
    std::string text = std::ssize(labels) == counts_.classes()
                           ? "\n"
                           : "\nthe " + std::to_string(labels.size()) + " classes with the lowest top1\n";
    char line[160];
    std::snprintf(line, sizeof line, "%-24s  %8s  %7s  mostly taken for\n", "class", "images", "top1");
    text += line;
    for (const std::int64_t label : labels) {
      const std::int64_t images = counts_.of_class(label), other = counts_.most_confused(label);
      std::snprintf(line, sizeof line, "%-24s  %8lld  ", printable(name_of(label), kNameWidth).c_str(),
                    static_cast<long long>(images));
      text += line;
      std::snprintf(line, sizeof line, "%6.1f%%", 100 * share(counts_.confused(label, label), images));
      text += images > 0 ? line : "       ";
      if (other >= 0) {
        std::snprintf(line, sizeof line, "  %s (%lld)", printable(name_of(other), kNameWidth).c_str(),
                      static_cast<long long>(counts_.confused(label, other)));
        text += line;
      }
      text += '\n';
    }
    return text;
  }

  std::string json() const override {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array(), confusion = classes;
    for (std::int64_t label = 0; label < counts_.classes(); ++label) {
      const std::int64_t images = counts_.of_class(label);
      nlohmann::ordered_json entry = {{"name", name_of(label)}, {"images", images}};
      if (images > 0) {
        entry["top1"] = share(counts_.confused(label, label), images);
        entry["top5"] = share(counts_.among_five(label), images);
      }
      classes.push_back(std::move(entry));
    }
    for (const auto& [pair, count] : counts_.confusion())
      confusion.push_back({pair.first, pair.second, count});
    return nlohmann::ordered_json{{"classes", std::move(classes)}, {"confusion", std::move(confusion)}}
        .dump();
  }

 private:
  static double share(std::int64_t part, std::int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
  }
  const std::string& name_of(std::int64_t label) const {
    return source_->class_names()[static_cast<std::size_t>(label)];
  }

  /// Labels of the table: all, or of many the worst that have images.
  std::vector<std::int64_t> shown() const {
    std::vector<std::int64_t> labels(static_cast<std::size_t>(counts_.classes()));
    std::iota(labels.begin(), labels.end(), 0);
    if (labels.size() <= kMostRows) return labels;
    std::erase_if(labels, [&](std::int64_t label) { return counts_.of_class(label) == 0; });
    std::ranges::stable_sort(labels, {}, [&](std::int64_t label) {
      return share(counts_.confused(label, label), counts_.of_class(label));
    });
    labels.resize(std::min(labels.size(), kMostRows));
    return labels;
  }

  ClassCounts counts_;
  PictureSourcePtr source_;
};

}  // namespace

std::optional<Evaluation> evaluate_image_model(const ImageModel& model, const EvaluationPictures& data,
                                               int workers, StopEvaluation stop, Communicator& processes) {
  const NoGrad no_grad;
  const std::int64_t classes = data.source().num_classes(), total = data.pictures().size();
  BatchWorkers<PictureBatch> batches = evaluation_batches(data, workers, processes);
  ClassCounts counts(classes);
  double sum = 0;
  std::int64_t done = 0;
  for (std::int64_t first = 0; first < data.size(); first += processes.size()) {
    if (stop({done, total})) return std::nullopt;
    const PictureBatch batch = batches.next();
    const Variable logits =
        model.forward(Variable(batch.pictures.to(model.dtype()).to(model.device()))).logits;
    double loss =
        cross_entropy(logits, batch.labels.to(model.device()), {.keep_logits = true}).value().item();
    const Tensor on_host = logits.value().to(kCpu).to(DType::kFloat32);
    const bool counted = first + processes.rank() < data.size();
    if (!counted) loss = 0;
    if (counted && !dry_run()) counts.add(on_host, batch.labels);
    add_in_order({&sum, 1}, {&loss, 1}, processes);
    done = std::min(done + data.rows(0) * processes.size(), total);
  }
  counts.add_of_all(processes);
  if (dry_run()) return Evaluation{};
  if (counts.total() == 0)
    throw DataError("evaluation: none of the " + std::to_string(total) + " pictures can be decoded");
  Evaluation evaluation;
  evaluation.score = counts.top1();
  if (classes > ClassCounts::kFew) evaluation.metrics.emplace_back("top5", counts.top5());
  evaluation.metrics.emplace_back("loss", sum / static_cast<double>(counts.total()));
  evaluation.evaluated = counts.total();
  evaluation.held_out = data.pictures().total();
  evaluation.coverage =
      std::to_string(evaluation.evaluated) + " of " + std::to_string(evaluation.held_out) + " images";
  evaluation.details = std::make_shared<ClassDetails>(std::move(counts), data.source_pointer());
  return evaluation;
}

}  // namespace moh
