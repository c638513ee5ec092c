#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "train/trainer/task/calibration.h"
#include "train/trainer/task/family.h"
#include "train/trainer/task/stored_model.h"

namespace moh {

/// Opens the checkpoint of init.from. Throws CheckpointError, and ConfigError where the configuration stored
/// with the weights disagrees with the run's `model`.
StoredModel open_source(const RunConfig& run, const Families& families);

/// Copies the source's weights into the model, which is one of `family`. Where the model has more rows, one
/// per token or class, than the source (WeightNames::rows_may_grow), the new rows are filled as
/// run.init.new_rows says, and adapters that the source lacks get their initial values. Returns the router
/// parameters that a dense checkpoint lacks: they keep theirs. Throws CheckpointError that lists all other
/// missing or unexpected names and differing shapes, before anything is changed.
std::vector<NamedParameter> load_source(const Model& model, const StoredModel& source, const RunConfig& run,
                                        const Family& family);

/// The teacher of a run with init.distill.teacher: source (has_own_teacher): the dense model of the source.
/// Throws ConfigError for a source that has routers, and what load_source throws.
std::unique_ptr<Model> load_teacher(const StoredModel& source, const RunConfig& run, const Family& family);

/// Fills the rows of `matrix` [V, D] from `old_rows` on, which must be 1 or more:
///   kMean:   m_j + 0.1 s_j n, with m_j and s_j the mean and standard deviation of column j over the old rows
///            and n standard normal, so that a new token starts near the average one but differs from others
///   kNormal: normal with standard deviation `std`
///   kZeros:  0
/// Each element depends only on the old rows, on `key` and on its index. The old rows are not changed.
void fill_new_rows(const Tensor& matrix, std::int64_t old_rows, NewRows how, double std, RandomKey key);

/// Where model.moh.shared_heads is a rule that needs measurements: builds the dense model of the source,
/// measures its heads, and replaces the rule in `run` by the resulting lists of heads, so that later readers
/// of the configuration need no measurement. Throws what load_source throws.
void settle_shared_heads(RunConfig& run, const Family& family, const StoredModel& source,
                         const Calibration& calibration);

/// Initialises the weights of the model, which run.family describes: from the source, and as init.moh says
/// for routers that the source lacks. Logs divergence_from_dense, for learned routers once for each value of
/// init.moh.router_start. Throws what load_source throws.
void initialise_from_source(const Model& model, const StoredModel& source, const RunConfig& run,
                            const Family& family, const Calibration& calibration);

}  // namespace moh
