// The PUs that the calling thread may run on: reading, setting, and restoring them.
#pragma once

#include <vector>

#include "smelt/error.hpp"

namespace smelt {

/// os_index of every PU in the calling thread's affinity mask, ascending. Works for any number
/// of PUs. Cost: a system call.
Result<std::vector<int>> this_thread_affinity();

/// Lets the calling thread run on exactly those PUs. Errors: the list is empty, or no PU of it exists and is allowed.
Result<void> set_this_thread_affinity(const std::vector<int>& os_indices);

/// Remembers the calling thread's affinity and restores it at the end of the scope, which must be on the same thread.
/// Does nothing if the mask could not be read.
class SavedAffinity {
 public:
  SavedAffinity();
  ~SavedAffinity();
  SavedAffinity(const SavedAffinity&) = delete;
  SavedAffinity& operator=(const SavedAffinity&) = delete;

 private:
  std::vector<int> os_indices_;
};

}  // namespace smelt
