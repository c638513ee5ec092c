#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "train/families/diffusion/sampling/picture_sampler.h"

namespace moh {

/// Options of the output of `moh sample`.
struct SampleFolderOptions {
  std::filesystem::path folder;   ///< with `latents` it may be empty
  std::filesystem::path latents;  ///< a file for what the model makes, in place of pictures; empty: none
  std::int64_t count = 16;
  std::int64_t batch_size = 16;          ///< of each process
  std::vector<std::int64_t> classes;     ///< in turns; empty: at random
  std::vector<std::string> class_names;  ///< of all classes, for grid.json
  bool npz = false;                      ///< samples.npz beside the pictures
  int columns = 8;                       ///< of the grid
  std::string model;                     ///< which weights: a text for sample.json
  std::string autoencoder;               ///< the same of the one that decodes; empty: none
};

struct SampleProgress {
  std::int64_t pictures = 0;  ///< that are there
  std::int64_t step = 0;      ///< of the batch that is being made
};

/// Draws pictures into a folder: `000000.png` and so on, each complete when it has its name, `sample.json`
/// with every setting that they depend on, and at the end `grid.png` of up to 64 of them, `grid.json` with
/// their classes, and samples.npz. Pictures that are there already are kept. With `to.latents` these files
/// hold latents (SampledLatents), of which at the end one is made, with the settings and labels in a .json
/// beside it. Of several processes the first one reads and writes, and all call `stop` before each step of
/// the model; returns false if it returned true. Throws ConfigError for a folder with pictures of other
/// settings and for processes that are to draw different pictures, StorageError, NumericError, DataError.
bool sample_folder(const PictureSampler& sampler, const Dit& model, const SampleOptions& options,
                   const SampleFolderOptions& to, FunctionRef<bool(const SampleProgress&)> stop,
                   Communicator& processes);

}  // namespace moh
