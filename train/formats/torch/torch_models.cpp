#include <algorithm>
#include <array>
#include <set>

#include "train/formats/torch/torch_children.h"
#include "train/formats/torch/torch_contents.h"
#include "train/formats/torch/torch_module.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::size_t kMaxModelDepth = 8;  // of dicts and objects around one
constexpr std::size_t kMaxModels = 1024;   // in one file

// Their tensors are named after those of a model, or have its shapes, and are none.
constexpr std::string_view kNotModels[] = {"opt",
                                           "optim",
                                           "optimizer",
                                           "optimizers",
                                           "optimizer_state_dict",
                                           "optimizer_states",
                                           "optim_state",
                                           "optim_state_dict",
                                           "lr_scheduler",
                                           "lr_schedulers",
                                           "scheduler",
                                           "scaler",
                                           "grad_scaler",
                                           "rng_state"};

// In the order of choice. The first is what sample.py of DiT and MoH-DiT loads, the second what main.py of
// TransNeXt and MoH-ViT does.
constexpr std::string_view kUsualParts[] = {
    "ema",     "model",  "state_dict", "module",         "model_state_dict", "net", "network",
    "weights", "params", "model_ema",  "state_dict_ema", "ema_state_dict",   "."};

/// Classes and functions whose objects are tensors that moh cannot read.
bool may_be_tensor(std::string_view name) {
  return name.starts_with("torch._utils._rebuild") || name.starts_with("torch._tensor._rebuild") ||
         name.starts_with("torch._C._rebuild") || name == "torch.storage._load_from_bytes" ||
         name == "numpy.core.multiarray._reconstruct" || name == "numpy._core.multiarray._reconstruct";
}

class ModelSearch {
 public:
  ModelSearch(const InputFile& file, const PickleTree& tree, const TorchTensors& tensors)
      : file_(file), tree_(tree), tensors_(tensors) {}

  std::vector<TorchModel> run() {
    look(tree_.root(), "", 0);
    return std::move(models_);
  }

 private:
  /// Recursive, as kMaxModelDepth is small. A dict that is there under several names is a model under each;
  /// what is in it is looked at once.
  void look(PickleId id, const std::string& path, std::size_t depth) {
    const TorchChildren children(tree_, id);
    if (!children.is_mapping() || tensors_.contains(id) || !has_text_keys(children)) return;
    const bool is_new = seen_.insert(id).second;
    const std::string part = path.empty() ? "." : path;
    const auto module = find_module(tree_, id);
    if (module) {
      add_module(*module, part);
    } else if (is_new || !children.is_object()) {
      add_model(children, part);
    }
    if (!is_new || depth == kMaxModelDepth) return;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const TorchChildren::Child child = children.at(i);
      const std::string name = child_name(tree_, child);
      if (std::ranges::find(kNotModels, name) != std::ranges::end(kNotModels)) continue;
      if (module && is_state_of(*module, child.value)) continue;
      look(child.value, path.empty() ? name : path + "/" + name, depth + 1);
    }
  }

  bool has_text_keys(const TorchChildren& children) const {
    for (std::size_t i = 0; i < children.size(); ++i) {
      const PickleId key = children.at(i).key;
      if (key == TorchChildren::kNoKey || !tree_.is(key, PickleKind::kText)) return false;
    }
    return true;
  }

  void add_model(const TorchChildren& children, const std::string& part) {
    TorchModel model{part, {}, {}};
    std::set<std::string> names;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const TorchChildren::Child child = children.at(i);
      const bool opaque =
          tree_.is(child.value, PickleKind::kObject) && may_be_tensor(tree_.name(child.value));
      if (opaque || tensors_.contains(child.value))
        add_tensor(model, names, std::string(tree_.bytes(child.key)), child.value);
    }
    add(std::move(model));
  }

  /// A whole module has its state_dict() spread over its attributes.
  void add_module(const TorchModule& module, const std::string& part) {
    TorchModel model{part, {}, {}};
    std::set<std::string> names;
    visit_state(file_, tree_, module, name_bytes_,
                [&](const std::string& name, PickleId value) { add_tensor(model, names, name, value); });
    add(std::move(model));
  }

  void add_tensor(TorchModel& model, std::set<std::string>& names, const std::string& name, PickleId value) {
    if (!names.insert(name).second) {
      file_.fail("tensor " + printable(model.part + "/" + name), "this name once", "it twice",
                 "the file is damaged");
    }
    const auto tensor = tensors_.find(value);
    if (tensor != tensors_.end()) {
      model.tensors.emplace_back(name, &tensor->second);
    } else {
      model.unread.emplace_back(
          name, tree_.is(value, PickleKind::kObject) ? tree_.name(value) : "no class of tensors");
    }
  }

  void add(TorchModel model) {
    if (model.tensors.empty()) return;
    num_tensors_ += model.tensors.size();
    if (models_.size() == kMaxModels || num_tensors_ > TorchFile::kMaxLeaves) {
      file_.fail("models in the file", "at most " + std::to_string(kMaxModels), "more, or too large ones");
    }
    models_.push_back(std::move(model));
  }

  const InputFile& file_;
  const PickleTree& tree_;
  const TorchTensors& tensors_;
  std::set<PickleId> seen_;
  std::size_t num_tensors_ = 0;  // of all models
  std::size_t name_bytes_ = 0;   // of all modules
  std::vector<TorchModel> models_;
};

std::string_view last_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// The model at that path, or else the only one with that last name.
const TorchModel* find_model(std::span<const TorchModel> models, std::string_view part) {
  const auto exact = std::ranges::find(models, part, &TorchModel::part);
  if (exact != models.end()) return &*exact;
  const auto named = [&](const TorchModel& model) { return last_name(model.part) == part; };
  const auto found = std::ranges::find_if(models, named);
  if (found == models.end() || std::ranges::count_if(models, named) > 1) return nullptr;
  return &*found;
}

std::string list_parts(std::span<const TorchModel> models) {
  std::string list;
  for (std::size_t i = 0; i < models.size() && i < 10; ++i) {
    list += (i == 0 ? "" : ", ") + printable(models[i].part);
  }
  return models.size() > 10 ? list + ", ..." : list;
}

}  // namespace

std::vector<TorchModel> find_models(const InputFile& file, const PickleTree& tree,
                                    const TorchTensors& tensors) {
  return ModelSearch(file, tree, tensors).run();
}

const TorchModel& TorchFile::choose_model(std::string_view part) const {
  const std::span<const TorchModel> all = models();
  if (all.empty()) {
    fail("", "a dict of tensors, such as a model's state_dict()", "none",
         "in Python, save the state_dict() of the model with torch.save");
  }
  if (!part.empty()) {
    const TorchModel* named = find_model(all, part);
    if (named == nullptr)
      fail("part " + printable(part), "one of " + list_parts(all), "none or several of it");
    return *named;
  }
  if (all.size() == 1) return all.front();
  for (const std::string_view usual : kUsualParts) {
    if (const TorchModel* found = find_model(all, usual)) return *found;
  }
  fail("models", "one, or one with a usual name", list_parts(all), "say which part to take");
}

}  // namespace moh
