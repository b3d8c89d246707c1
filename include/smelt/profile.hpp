// Profile: what the tuner found out on a machine: which recipe is best for which operation, size, kind of
// synchronization and group. A plain value beside the machine model, saved as JSON (schema "smelt-profile/1").
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/collective.hpp"
#include "smelt/error.hpp"
#include "smelt/floor.hpp"
#include "smelt/machine.hpp"
#include "smelt/schedule.hpp"

namespace smelt {

/// The shape of a group, as far as it matters: profiles of one shape serve every group of it.
struct GroupShape {
  int ranks = 0;
  int packages = 1;      ///< that have ranks
  int l3_caches = 1;     ///< that have ranks
  int ranks_per_pu = 1;  ///< most ranks on one PU
  bool processes = false;

  bool operator==(const GroupShape&) const = default;
};
/// The shape of a group on a machine.
GroupShape shape_of(const Machine& machine, const Group& group, bool processes);

/// The winner for sizes of at least `from_bytes` (as in candidate_recipes: of the vector, or of a block), up to
/// the next cell of the same operation, sync and shape.
struct ProfileCell {
  Operation operation = Operation::broadcast;
  Sync sync = Sync::loose;
  GroupShape shape;
  std::size_t from_bytes = 0;
  Recipe recipe;
  double measured_ns = 0.0;   ///< median, at from_bytes; 0: not measured, the recipe is the model's or a neighbour's
  double predicted_ns = 0.0;  ///< by the model, at from_bytes
  double spread = 0.0;        ///< interquartile range / median
  std::string runner_up{};    ///< a recipe's text; empty: there was no other
  double runner_up_ns = 0.0;
  bool equal = false;                 ///< the runner-up could not be told apart
  std::vector<std::string> equals{};  ///< all that could not be told apart, as recipes' texts
  Floor floor{};                      ///< at which it was raced

  bool operator==(const ProfileCell&) const = default;
};

/// Sizes at which the model is asked where there is no profile, ascending. Its choice holds half way (of the
/// logarithm) to the next.
const std::vector<std::size_t>& model_sizes();
/// The one whose choice holds for `bytes`.
std::size_t model_size(std::size_t bytes) noexcept;

struct Profile {
  std::string fingerprint;         ///< of the machine
  std::string measured_at;         ///< ISO 8601, UTC
  std::vector<ProfileCell> cells;  ///< sorted by operation, sync, shape, from_bytes

  bool operator==(const Profile&) const = default;

  /// The cell for a call, or nullptr if that operation, sync and shape was not tuned. Below the smallest size
  /// that was tuned its cell holds.
  const ProfileCell* find(Operation operation, Sync sync, const GroupShape& shape, std::size_t bytes) const noexcept;
  /// Takes over all cells of `newer`; those of the same operation, sync and shape are replaced.
  void merge(const Profile& newer);
};

/// How much of a profile was made at another floor.
struct FloorCheck {
  int tables = 0;  ///< that know the floor of a cell at least
  int moved = 0;   ///< of these, with a cell that was made at another one
  Floor then;      ///< of the first such cell; of the first that knows it, if there is none
};
/// Holds a profile's floors against the one of `now`: where they differ by more than 20 % it speaks of a machine that
/// this one is not at the moment.
FloorCheck check_floor(const Profile& profile, const Floor& now);

/// How the recipes of two profiles relate, at one size of a table that both have.
struct ProfileAgreement {
  enum class Kind {
    same,           ///< one recipe
    same_schedule,  ///< two names for the same moves (same_schedule in smelt/schedule.hpp)
    equal,          ///< one of the two could not tell them apart
    different,
  };
  Kind kind = Kind::different;
  std::size_t bytes = 0;
  ProfileCell first, second;  ///< that hold at that size
};
/// At the sizes that the tuner begins with: 8 bytes times powers of 4, and the largest of each table. Tables that
/// one of the two lacks are left out. `machine`, if not nullptr, tells which recipes come to the same.
std::vector<ProfileAgreement> compare_profiles(const Profile& first, const Profile& second,
                                               const Machine* machine = nullptr);

/// Reads a profile. The error names file, key and reason. Never returns a half-read one. Unknown keys are
/// passed over.
Result<Profile> load_profile(const std::filesystem::path& file);
Result<Profile> parse_profile(std::string_view json, const std::string& origin);
/// One cell per line. What parse_profile() reads from it is equal to `profile`.
std::string format_profile(const Profile& profile);
/// Writes to a temporary file beside `file`, flushes and renames it: readers see the old or the new one.
/// Missing directories are not made. Errors: a profile that load_profile would refuse, or what the operating
/// system says.
Result<void> save_profile(const Profile& profile, const std::filesystem::path& file);

/// Where the profile of a machine is kept: beside its model, <fingerprint>.profile.json.
std::filesystem::path profile_path(const std::string& fingerprint);

}  // namespace smelt
