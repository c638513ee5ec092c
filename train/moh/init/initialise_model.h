#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "train/tasks/calibration.h"
#include "train/tasks/family.h"
#include "train/tasks/model_source.h"

namespace moh {

/// Opens the checkpoint of init.from. Throws CheckpointError, and ConfigError where what lies beside the
/// weights describes another model than the run's.
ModelSource open_source(const RunConfig& run, const Families& families);

/// Copies the source's weights into the model, which is one of `family`; where it has more rows per token or
/// class (WeightNames::rows_may_grow), the new ones are filled as run.init.new_rows says. Returns the router
/// parameters that a dense checkpoint lacks: they are left as they were. Throws CheckpointError that lists
/// all other names which are missing, too much or of another shape, before anything is changed.
std::vector<NamedParameter> load_source(const Model& model, const ModelSource& source, const RunConfig& run,
                                        const Family& family);

/// Fills the rows of `matrix` [V, D] from `old_rows` on, which must be 1 or more:
///   kMean:   m_j + 0.1 s_j n, with m_j and s_j the mean and standard deviation of column j over the old rows
///            and n standard normal, so that a new token begins as an average one, told from others
///   kNormal: normal numbers of standard deviation `std`
///   kZeros:  0
/// An element is a function of the old rows, of `key` and of its place. The old rows stay as they are.
void fill_new_rows(const Tensor& matrix, std::int64_t old_rows, NewRows how, double std, RandomKey key);

/// Where model.moh.shared_heads is a rule that measures: makes the dense model of the source, measures, and
/// replaces the rule by the lists of heads, so that whatever reads the configuration from then on needs no
/// measurement. Throws what load_source throws.
void settle_shared_heads(RunConfig& run, const Family& family, const ModelSource& source,
                         const Calibration& calibration);

/// Gives the model, which run.family describes, its first weights: the source's, and what init.moh says for
/// routers that the source lacks. Logs how far the model's predictions are from the dense ones
/// (divergence_from_dense), with each way to start learned routers. Throws what load_source throws.
void initialise_from_source(const Model& model, const ModelSource& source, const RunConfig& run,
                            const Family& family, const Calibration& calibration);

}  // namespace moh
