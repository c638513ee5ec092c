#pragma once

#include "train/base/formats/torch/pickle.h"
#include "train/base/formats/torch/torch_tensor.h"
#include "train/base/io/input_file.h"

namespace moh {

/// The contents of a file of torch.save: one object, and separately the storages of its tensors.
struct TorchContents {
  PickleTree tree;
  TorchStorages storages;
  bool is_old_format = false;  ///< the format before PyTorch 1.6
};

/// Whether the first bytes of the file are those of a file of PyTorch, of any version and kind.
bool has_torch_magic(const InputFile& file);

/// Reads one of
/// - the zip archives of PyTorch 1.6 and later: NAME/data.pkl is the object, NAME/data/KEY the storages. The
///   pickle's checksum is verified;
/// - the streams of PyTorch 0.1.10 to 1.5: five pickles (a magic number, the format's version, sizes of C
///   types, the object, the keys of the storages), then each storage, preceded by its number of elements in 8
///   bytes.
/// Throws the file's kind of error for another file.
TorchContents read_torch_contents(const InputFile& file);

}  // namespace moh
