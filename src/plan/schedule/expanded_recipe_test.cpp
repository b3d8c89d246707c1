// Which recipes come to the same.
#include "plan/schedule/expanded_recipe.hpp"

#include <gtest/gtest.h>

namespace smelt {
namespace {

class RecipeEquivalence {
 public:
  explicit RecipeEquivalence(int ranks) : machine_(*synthesize_machine({})) {
    for (int rank = 0; rank < ranks; ++rank) group_.pus.push_back(rank);
  }

  bool same(const std::string& a, const std::string& b, std::size_t bytes, bool processes = false) const {
    return same_schedule(request(a), request(b), bytes, {.processes = processes});
  }

 private:
  ScheduleRequest request(const std::string& recipe) const {
    auto made = make_request(machine_, group_, *parse_recipe(recipe));
    EXPECT_TRUE(made) << recipe;
    return *made;
  }
  Machine machine_;
  Group group_;
};

TEST(ExpandedRecipe, TreesOfTwoRanksAreOneTree) {
  const RecipeEquivalence two(2), four(4);
  for (const char* tree : {"chain", "sequential", "k-nomial:2", "k-nomial:4"}) {
    const auto recipe = std::string("broadcast_tree+direct+tree=") + tree;
    EXPECT_TRUE(two.same("broadcast_tree+direct", recipe, 65536)) << tree;
  }
  EXPECT_FALSE(four.same("broadcast_tree+direct+tree=chain", "broadcast_tree+direct+tree=sequential", 65536));
  EXPECT_FALSE(two.same("broadcast_tree+direct", "broadcast_tree+channels", 65536));
  EXPECT_FALSE(two.same("allreduce_flat+staged", "allreduce_slices+staged", 65536));
}

TEST(ExpandedRecipe, ChunksMatterFromTheirSizeOn) {
  const RecipeEquivalence four(4);
  EXPECT_TRUE(four.same("broadcast_pipeline+staged", "broadcast_pipeline+staged+chunk=8192", 4096));
  EXPECT_FALSE(four.same("broadcast_pipeline+staged", "broadcast_pipeline+staged+chunk=8192", 16384));
  EXPECT_FALSE(four.same("broadcast_pipeline+staged+chunk=4096", "broadcast_pipeline+staged+chunk=8192", 16384));
}

TEST(ExpandedRecipe, ShortMessagesAreCopiedWhateverTheAccess) {
  const RecipeEquivalence four(4);
  EXPECT_TRUE(four.same("broadcast_tree+channels", "broadcast_tree+direct", 2048));
  EXPECT_FALSE(four.same("broadcast_tree+channels", "broadcast_tree+direct", 2049));
  EXPECT_TRUE(four.same("broadcast_tree+channels", "broadcast_tree+direct", 8192, true)) << "of processes up to there";
  EXPECT_FALSE(four.same("broadcast_tree+channels", "broadcast_tree+direct", 8193, true));
  // Of rank blocks a message may hold several.
  EXPECT_FALSE(four.same("allgather_recursive_doubling+channels", "allgather_recursive_doubling+direct", 2048));
}

TEST(ExpandedRecipe, EqualCoursesHaveEqualPredictions) {
  const Machine machine = *synthesize_machine({});
  const Access access[] = {Access::channels, Access::staged, Access::direct};
  const Group pair{{0, 1}};
  for (const auto operation : {Operation::broadcast, Operation::allreduce, Operation::allgather, Operation::scan}) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{1} << 20}) {
      const auto ranked = *rank_recipes(machine, pair, operation, bytes, access);
      for (std::size_t i = 0; i + 1 < ranked.size(); ++i) {
        const auto a = *make_request(machine, pair, ranked[i].recipe);
        const auto b = *make_request(machine, pair, ranked[i + 1].recipe);
        if (!same_schedule(a, b, bytes)) continue;
        EXPECT_DOUBLE_EQ(ranked[i].predicted_ns, ranked[i + 1].predicted_ns)
            << to_string(ranked[i].recipe) << " and " << to_string(ranked[i + 1].recipe) << " of " << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace smelt
