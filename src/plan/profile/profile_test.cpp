#include "smelt/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace smelt {
namespace {

int flushes = 0;
int flush_error = 0;  ///< what flushing fails with; 0: it does not fail

}  // namespace
}  // namespace smelt

/// In place of the C library's.
int fsync(int descriptor) {
  ++smelt::flushes;
  if (smelt::flush_error == 0) return static_cast<int>(syscall(SYS_fsync, descriptor));
  errno = smelt::flush_error;
  return -1;
}

namespace smelt {
namespace {

using testing::HasSubstr;

GroupShape two_ranks() { return {2, 1, 1, 1, false}; }

ProfileCell cell(std::size_t from, const std::string& recipe, Sync sync = Sync::loose) {
  ProfileCell result;
  result.recipe = *parse_recipe(recipe);
  result.operation = recipe.starts_with("broadcast") ? Operation::broadcast : Operation::allreduce;
  result.sync = sync;
  result.shape = two_ranks();
  result.from_bytes = from;
  result.measured_ns = 100.25;
  result.predicted_ns = 99.0 / 7.0;
  return result;
}

Profile sample() {
  Profile profile{"abc", "2026-01-02T03:04:05Z", {}};
  auto first = cell(8, "broadcast_tree+channels");
  first.spread = 0.1;
  first.runner_up = "broadcast_pipeline+staged";
  first.runner_up_ns = 101.5;
  first.equal = true;
  first.equals = {"broadcast_pipeline+staged"};
  profile.cells = {first, cell(4096, "broadcast_tree+direct+chunk=16384"),
                   cell(8, "broadcast_pipeline+staged", Sync::strict), cell(64, "allreduce_ring+channels")};
  profile.cells[0].floor = profile.cells[1].floor = {37.25, 988.5};
  profile.cells[3].floor = {0.0, 1000.0};
  return profile;
}

/// A later run had no time for what an earlier one had measured.
Profile sample_of_two_runs() {
  auto profile = sample();
  auto kept = cell(65536, "broadcast_tree+direct+chunk=16384");
  kept.floor = {38.5, 990.0};  // of an earlier run
  profile.cells.insert(profile.cells.begin() + 2, kept);
  kept.from_bytes = 1 << 20;
  kept.floor = {};  // of before there were floors
  profile.cells.insert(profile.cells.begin() + 3, kept);
  return profile;
}

TEST(Profile, RoundTrip) {
  const auto profile = sample_of_two_runs();
  const auto read = parse_profile(format_profile(profile), "text");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, profile);
  const Profile empty{"x", "", {}};
  const auto nothing = parse_profile(format_profile(empty), "text");
  ASSERT_TRUE(nothing) << nothing.error().message;
  EXPECT_EQ(*nothing, empty);
}

TEST(Profile, FileIsReplacedWhole) {
  const auto directory = std::filesystem::path(testing::TempDir());
  const auto file = directory / "tuned.profile.json";
  ASSERT_TRUE(save_profile(sample(), file));
  auto other = sample();
  other.fingerprint = "def";
  ASSERT_TRUE(save_profile(other, file));
  const auto read = load_profile(file);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, other);
  auto wrong = other;
  wrong.cells[0].from_bytes = wrong.cells[1].from_bytes;
  EXPECT_FALSE(save_profile(wrong, file)) << "what cannot be read is not written";
  EXPECT_EQ(*load_profile(file), other);
  EXPECT_EQ(save_profile(other, directory / "none" / "x.json").error().status, Status::not_found);
  EXPECT_EQ(load_profile(directory / "none.json").error().status, Status::not_found);
  std::filesystem::remove(file);
}

TEST(Profile, FilesAreWrittenWhereTheyAreAndNothingIsLeft) {
  namespace fs = std::filesystem;
  const auto directory = fs::path(testing::TempDir()) / ("smelt-profiles-" + std::to_string(getpid()));
  fs::create_directories(directory);
  const auto file = directory / "a.json", link = directory / "link.json";
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory)) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  };
  ASSERT_TRUE(save_profile(sample(), file));
  fs::create_symlink("a.json", link);
  auto other = sample();
  other.measured_at = "later";
  ASSERT_TRUE(save_profile(other, link));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(*load_profile(file), other);
  EXPECT_EQ(names(), (std::vector<std::string>{"a.json", "link.json"}));
  // Someone else's file of the name that it would take first.
  const auto taken = "a.json." + std::to_string(getpid()) + ".0.tmp";
  std::ofstream(directory / taken) << "mine";
  ASSERT_TRUE(save_profile(sample(), file));
  EXPECT_EQ(*load_profile(file), sample());
  EXPECT_EQ(names(), (std::vector<std::string>{"a.json", taken, "link.json"}));
  EXPECT_EQ(fs::file_size(directory / taken), 4u);
  EXPECT_TRUE(save_profile(sample(), "/dev/null")) << "is no file that could be replaced";
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(save_profile(sample(), directory).error().status, Status::io_error);
  EXPECT_EQ(load_profile(directory).error().status, Status::io_error);
  EXPECT_EQ(save_profile(sample(), file / "b.json").error().status, Status::not_found);
  EXPECT_EQ(load_profile(file / "b.json").error().status, Status::not_found);
  EXPECT_EQ(names(), (std::vector<std::string>{"a.json", taken, "link.json"}));
  fs::resize_file(file, (64u << 20) + (1u << 16));
  EXPECT_THAT(load_profile(file).error().message, HasSubstr("too large"));
  fs::remove_all(directory);
}

TEST(Profile, AFileThatCannotBeFlushedReplacesNothing) {
  const auto directory = std::filesystem::path(testing::TempDir()) / ("smelt-flushed-" + std::to_string(getpid()));
  std::filesystem::create_directories(directory);
  const auto file = directory / "a.json";
  const int before = flushes;
  ASSERT_TRUE(save_profile(sample(), file));
  EXPECT_EQ(flushes, before + 1);
  auto other = sample();
  other.measured_at = "later";
  flush_error = EIO;
  const auto failed = save_profile(other, file);
  flush_error = EINVAL;  // of what has nothing to flush
  const auto special = save_profile(other, "/dev/null");
  flush_error = 0;
  EXPECT_EQ(failed.error().status, Status::io_error);
  EXPECT_TRUE(special);
  EXPECT_EQ(*load_profile(file), sample());
  const auto entries = std::filesystem::directory_iterator(directory);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "files beside it";
  std::filesystem::remove_all(directory);
}

/// The sample's text with one part replaced.
std::string with(const std::string& part, const std::string& other) {
  auto text = format_profile(sample());
  const auto at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), other);
}

TEST(Profile, ErrorsNameFileKeyAndReason) {
  const struct {
    std::string text, says;
  } mistakes[] = {
      {"", "not valid JSON"},
      {"[1, 2]", "must be an object"},
      {"{}", "schema: missing"},
      {with("smelt-profile/1", "smelt-profile/2"), "schema: must be \"smelt-profile/1\""},
      {with("\"abc\"", "17"), "fingerprint: must be a string, is 17"},
      {with("\"from_bytes\": 8", "\"from_bytes\": -8"), "tables[0].cells[0].from_bytes: must be a whole number"},
      {with("\"from_bytes\": 4096", "\"from_bytes\": 8"), "tables[0].cells[1].from_bytes: must be more than"},
      {with("\"ranks\": 2", "\"ranks\": 0"), "tables[0].ranks: must be a whole number 1.."},
      {with("\"sync\": \"loose\"", "\"sync\": \"lose\""), "tables[0].sync: must be \"loose\" or \"strict\""},
      {with("\"operation\": \"broadcast\"", "\"operation\": \"braodcast\""), "tables[0].operation"},
      {with("\"recipe\": \"broadcast_tree+channels\"", "\"recipe\": \"allreduce_ring\""),
       "is no algorithm for broadcast"},
      {with("\"recipe\": \"broadcast_tree+channels\"", "\"recipe\": \"broadcast_magic\""),
       "unknown algorithm 'broadcast_magic'"},
      {with("\"measured_ns\": 100.25", "\"measured_ns\": \"fast\""),
       "tables[0].cells[0].measured_ns: must be a number"},
      {with("\"measured_ns\": 100.25", "\"measured_ns\": -1"), "measured_ns"},
      {with("\"equal\": true", "\"equal\": 1"), "equal: must be true or false"},
      {with("\"sync\": \"strict\"", "\"sync\": \"loose\""), "a second table of the same operation"},
      {with("\"recipe\": \"broadcast_tree+channels\", ", ""), "tables[0].cells[0].recipe: missing"},
  };
  for (const auto& mistake : mistakes) {
    const auto read = parse_profile(mistake.text, "the file");
    ASSERT_FALSE(read) << mistake.text;
    EXPECT_EQ(read.error().status, Status::bad_format);
    EXPECT_THAT(read.error().message, testing::StartsWith("the file: "));
    EXPECT_THAT(read.error().message, HasSubstr(mistake.says));
    EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
  }
}

TEST(Profile, NumbersAndTextsReachTheirBounds) {
  const auto reads = [](const std::string& part, const std::string& other) {
    return static_cast<bool>(parse_profile(with(part, other), "text"));
  };
  const std::string ranks = "\"ranks\": 2", from = "\"from_bytes\": 4096", ns = "\"measured_ns\": 100.25";
  EXPECT_TRUE(reads(ranks, "\"ranks\": 1"));
  EXPECT_TRUE(reads(ranks, "\"ranks\": 1048576"));
  EXPECT_FALSE(reads(ranks, "\"ranks\": 1048577"));
  EXPECT_FALSE(reads(ranks, "\"ranks\": 2.5"));
  EXPECT_FALSE(reads(ranks, "\"ranks\": 18446744073709551615"));
  EXPECT_TRUE(reads("\"from_bytes\": 8", "\"from_bytes\": 0"));
  EXPECT_TRUE(reads(from, "\"from_bytes\": 1152921504606846976"));
  EXPECT_FALSE(reads(from, "\"from_bytes\": 1152921504606846977"));
  EXPECT_TRUE(reads(ns, "\"measured_ns\": 0"));
  EXPECT_TRUE(reads(ns, "\"measured_ns\": 1e15"));
  EXPECT_FALSE(reads(ns, "\"measured_ns\": 1.1e15"));
  EXPECT_TRUE(reads("\"abc\"", '"' + std::string(1024, 'x') + '"'));
  EXPECT_FALSE(reads("\"abc\"", '"' + std::string(1025, 'x') + '"'));
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(reads("\"abc\"", "\"abc\", \"later\": " + nested(20)));
  EXPECT_THAT(parse_profile(with("\"abc\"", "\"abc\", \"later\": " + nested(40)), "text").error().message,
              HasSubstr("nested more than 32 deep"));
}

TEST(Profile, WrongValuesAreShownInPart) {
  const auto message = [](std::size_t length) {
    return parse_profile(with("\"abc\"", '[' + std::string(length - 2, '1') + ']'), "text").error().message;
  };
  // As a number those digits are shown in another way.
  EXPECT_THAT(parse_profile(with("\"abc\"", "[\"" + std::string(76, 'x') + "\"]"), "text").error().message,
              testing::EndsWith("is [\"" + std::string(76, 'x') + "\"]"));
  EXPECT_THAT(parse_profile(with("\"abc\"", "[\"" + std::string(77, 'x') + "\"]"), "text").error().message,
              testing::EndsWith("is [\"" + std::string(75, 'x') + "..."));
  EXPECT_THAT(message(10), testing::EndsWith("is [11111111]"));
  const auto strange = parse_profile("{\"schema\": \xc3\xa9\n" + std::string(500, 'x'), "text").error().message;
  EXPECT_THAT(strange, testing::StartsWith("text: not valid JSON: parse error at line 1"));
  EXPECT_LT(strange.size(), 200u);
  for (const char byte : strange) EXPECT_TRUE(byte >= ' ' && byte <= '~') << strange;
}

TEST(Profile, WrongRecipesAreShownInPartAndInOneLine) {
  const std::string recipe = "broadcast_tree+channels", many(900, 'n');
  for (const auto& wrong :
       std::vector<std::string>{"broad\\ncast", many, recipe + "+\\u0001", recipe + "+" + many, recipe + "+tree=\\n",
                                recipe + "+tree=" + many, recipe + "+tree=chain:" + many, recipe + "+chunk=\\n"}) {
    const auto read = parse_profile(with('"' + recipe + '"', '"' + wrong + '"'), "text");
    ASSERT_FALSE(read) << wrong;
    EXPECT_LT(read.error().message.size(), 400u);
    for (const char byte : read.error().message) EXPECT_TRUE(byte >= ' ' && byte <= '~') << read.error().message;
  }
}

TEST(Profile, MinusZeroIsZero) {
  const auto read = parse_profile(with("\"measured_ns\": 100.25", "\"measured_ns\": -0.0"), "text");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(std::signbit(read->cells.front().measured_ns));
  const auto text = format_profile(*read);
  EXPECT_EQ(format_profile(*parse_profile(text, "again")), text);
}

TEST(Profile, EveryCutIsAnError) {
  const auto text = format_profile(sample());
  for (std::size_t length = 0; length + 2 < text.size(); length += 7) {
    EXPECT_FALSE(parse_profile(text.substr(0, length), "cut")) << length;
  }
}

TEST(Profile, UnknownKeysArePassedOver) {
  EXPECT_TRUE(parse_profile(with("\"sync\": \"loose\"", "\"sync\": \"loose\", \"later\": [1, {}]"), "text"));
}

TEST(Profile, FilesWithoutFloorsAreRead) {
  auto text = format_profile(sample_of_two_runs());
  const std::string floor = "\"floor\": {\"line_ns\": 37.25, \"work_ns\": 988.5}, ";
  const auto at = text.find(floor);
  ASSERT_NE(at, std::string::npos);
  const auto old = parse_profile(text.erase(at, floor.size()), "text");
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_FALSE(old->cells[0].floor.known());
  EXPECT_EQ(old->cells[2].floor, (Floor{38.5, 990.0})) << "its own";
  EXPECT_EQ(check_floor(*old, {1, 1}).tables, 2) << "in which a cell knows its floor";
}

TEST(Profile, FloorsMustBeNumbers) {
  EXPECT_THAT(parse_profile(with("\"line_ns\": 37.25", "\"line_ns\": -1"), "text").error().message,
              HasSubstr("floor.line_ns: must be a number"));
  EXPECT_THAT(parse_profile(with("\"floor\": {\"line_ns\": 37.25", "\"floor\": 7, \"x\": {\"line_ns\": 37.25"), "text")
                  .error()
                  .message,
              HasSubstr("floor: must be an object"));
}

TEST(Profile, TellsWhichTablesWereMadeAtAnotherFloor) {
  const auto same = check_floor(sample(), {37.25, 1000.0});
  EXPECT_EQ(same.tables, 2) << "of three, one of which does not know";
  EXPECT_EQ(same.moved, 0);
  EXPECT_EQ(check_floor(sample(), {44.0, 1100.0}).moved, 0) << "within 20 %";
  const auto other_line = check_floor(sample(), {210.0, 1000.0});
  EXPECT_EQ(other_line.moved, 1) << "a table of one PU has no line";
  EXPECT_EQ(other_line.then, (Floor{37.25, 988.5}));
  EXPECT_EQ(check_floor(sample(), {37.25, 2000.0}).moved, 2);
  EXPECT_EQ(check_floor(sample(), {}).moved, 0) << "nobody knows what it is now";
  EXPECT_EQ(check_floor({}, {1, 1}).tables, 0);
  EXPECT_EQ(same.then, (Floor{37.25, 988.5})) << "the first";
  const auto last = check_floor(sample(), {37.25, 830.0});
  EXPECT_EQ(last.moved, 1);
  EXPECT_EQ(last.then, (Floor{0.0, 1000.0})) << "the first that has moved";
}

TEST(Profile, FindsTheCellOfASize) {
  const auto profile = sample();
  const auto from = [&](std::size_t bytes) {
    const auto* found = profile.find(Operation::broadcast, Sync::loose, two_ranks(), bytes);
    return found == nullptr ? 0 : found->from_bytes;
  };
  EXPECT_EQ(from(0), 8u) << "below the first its cell holds";
  EXPECT_EQ(from(8), 8u);
  EXPECT_EQ(from(4095), 8u);
  EXPECT_EQ(from(4096), 4096u);
  EXPECT_EQ(from(1u << 30), 4096u);
  EXPECT_EQ(profile.find(Operation::reduce, Sync::loose, two_ranks(), 8), nullptr);
  auto crowded = two_ranks();
  crowded.ranks_per_pu = 2;
  EXPECT_EQ(profile.find(Operation::broadcast, Sync::loose, crowded, 8), nullptr);
  EXPECT_EQ(profile.find(Operation::broadcast, Sync::strict, two_ranks(), 8), &profile.cells[2]);
  for (const GroupShape& other : {GroupShape{3, 1, 1, 1, false}, GroupShape{2, 2, 1, 1, false},
                                  GroupShape{2, 1, 2, 1, false}, GroupShape{2, 1, 1, 1, true}}) {
    EXPECT_EQ(profile.find(Operation::broadcast, Sync::loose, other, 8), nullptr);
  }
}

// Tables of all kinds, merged one by one in any order: all are there, sorted, as they were.
TEST(Profile, MergesInAnyOrder) {
  std::vector<Profile> parts;
  for (const char* recipe : {"broadcast_tree+channels", "allreduce_ring+channels"}) {
    for (const Sync sync : {Sync::loose, Sync::strict}) {
      for (const GroupShape& shape :
           {GroupShape{2, 1, 1, 1, false}, GroupShape{3, 1, 1, 1, false}, GroupShape{2, 2, 1, 1, false},
            GroupShape{2, 1, 2, 1, false}, GroupShape{2, 1, 1, 2, false}, GroupShape{2, 1, 1, 1, true}}) {
        Profile part{"abc", "now", {cell(64, recipe, sync), cell(4096, recipe, sync)}};
        for (auto& each : part.cells) each.shape = shape;
        parts.push_back(part);
      }
    }
  }
  std::vector<Profile> results;
  std::minstd_rand random(5);
  for (int turn = 0; turn < 4; ++turn) {
    std::shuffle(parts.begin(), parts.end(), random);
    Profile all{"first", "before", {}};
    for (const auto& part : parts) all.merge(part);
    EXPECT_EQ(all.cells.size(), 2 * parts.size());
    EXPECT_EQ(all.fingerprint, "abc");
    for (const auto& part : parts) {
      const auto& one = part.cells[1];
      ASSERT_NE(all.find(one.operation, one.sync, one.shape, 4096), nullptr);
      EXPECT_EQ(*all.find(one.operation, one.sync, one.shape, 4096), one);
      EXPECT_EQ(*all.find(one.operation, one.sync, one.shape, 100), part.cells[0]);
    }
    EXPECT_EQ(*parse_profile(format_profile(all), "text"), all);
    results.push_back(all);
  }
  for (const auto& each : results) EXPECT_EQ(each, results.front());
  auto same = results.front();
  same.merge({"", "later", {}});
  EXPECT_EQ(same.fingerprint, "abc") << "nobody has said another one";
  EXPECT_EQ(same.cells, results.front().cells);
}

TEST(Profile, MergeReplacesTables) {
  auto profile = sample();
  Profile newer{"abc", "later", {cell(16, "broadcast_pipeline+staged")}};
  profile.merge(newer);
  EXPECT_EQ(profile.measured_at, "later");
  ASSERT_EQ(profile.cells.size(), 3u);
  EXPECT_EQ(profile.cells[0], newer.cells[0]) << "both cells of the loose broadcast are gone";
  EXPECT_EQ(profile.cells[1].sync, Sync::strict);
  EXPECT_EQ(profile.cells[2].operation, Operation::allreduce);
  auto again = profile;
  again.merge(newer);
  EXPECT_EQ(again, profile);
}

std::vector<ProfileAgreement::Kind> kinds_of(const std::vector<ProfileAgreement>& cells) {
  std::vector<ProfileAgreement::Kind> kinds;
  for (const auto& each : cells) kinds.push_back(each.kind);
  return kinds;
}

TEST(Profile, ComparedSizeBySize) {
  using Kind = ProfileAgreement::Kind;
  const Profile first{"abc", "", {cell(8, "allreduce_ring"), cell(512, "allreduce_flat+staged")}};
  auto second = first;
  EXPECT_EQ(kinds_of(compare_profiles(first, second)), (std::vector<Kind>(4, Kind::same))) << "8, 32, 128, 512";
  second.cells[1].recipe = *parse_recipe("allreduce_slices+staged");
  const auto differing = compare_profiles(first, second);
  EXPECT_EQ(kinds_of(differing), (std::vector<Kind>{Kind::same, Kind::same, Kind::same, Kind::different}));
  EXPECT_EQ(differing.back().bytes, 512u);
  EXPECT_EQ(differing.back().first, first.cells[1]);
  EXPECT_EQ(differing.back().second, second.cells[1]);
  // Whichever of the two runs could not tell them apart.
  second.cells[1].equals = {"allreduce_flat+staged"};
  EXPECT_EQ(compare_profiles(first, second).back().kind, Kind::equal);
  EXPECT_EQ(compare_profiles(second, first).back().kind, Kind::equal);
  // A crossover elsewhere shows where it moves a size of the grid to the other side.
  auto moved = first;
  moved.cells[1].from_bytes = 400;
  EXPECT_EQ(kinds_of(compare_profiles(first, moved)), (std::vector<Kind>(4, Kind::same)));
  moved.cells[1].from_bytes = 100;
  EXPECT_EQ(compare_profiles(first, moved)[2].kind, Kind::different);
  EXPECT_TRUE(compare_profiles(first, {"abc", "", {cell(8, "broadcast_tree")}}).empty()) << "no table in common";
}

TEST(Profile, ComparedByExpandedRecipes) {
  using Kind = ProfileAgreement::Kind;
  const Machine machine = *synthesize_machine({.packages = 1, .cores = 2});
  Profile first{"abc", "", {cell(8, "broadcast_tree+direct+tree=chain")}}, second = first;
  second.cells[0].recipe = *parse_recipe("broadcast_tree+direct+tree=sequential");
  EXPECT_EQ(compare_profiles(first, second).front().kind, Kind::different) << "nobody knows";
  EXPECT_EQ(compare_profiles(first, second, &machine).front().kind, Kind::same_schedule);
  // Equals may go by another name, too.
  second.cells[0].recipe = *parse_recipe("broadcast_pipeline+staged");
  second.cells[0].equals = {"broadcast_tree+direct+tree=k-nomial"};
  EXPECT_EQ(compare_profiles(first, second, &machine).front().kind, Kind::equal);
  // A group of another shape than the machine's own: by names alone.
  first.cells[0].shape.l3_caches = second.cells[0].shape.l3_caches = 2;
  EXPECT_EQ(compare_profiles(first, second, &machine).front().kind, Kind::different);
}

TEST(Profile, TheModelsChoiceHoldsInTheMiddle) {
  EXPECT_EQ(model_size(0), 8u);
  EXPECT_EQ(model_size(11), 16u) << "sqrt(8 * 16) = 11.3, cut";
  EXPECT_EQ(model_size(10), 8u);
  EXPECT_EQ(model_size(std::size_t{1} << 40), model_sizes().back());
  for (const auto size : model_sizes()) EXPECT_EQ(model_size(size), size);
  ASSERT_EQ(model_sizes().size(), 25u);
  for (std::size_t k = 0; k < 25; ++k) EXPECT_EQ(model_sizes()[k], std::size_t{8} << k);
  for (std::size_t k = 1; k < 25; ++k) {
    const auto size = std::size_t{8} << k, limit = static_cast<std::size_t>(static_cast<double>(size) / std::sqrt(2.0));
    EXPECT_EQ(model_size(limit), size);
    EXPECT_EQ(model_size(limit - 1), size / 2);
  }
}

TEST(Profile, LiesBesideTheModel) {
  EXPECT_EQ(profile_path("f00").parent_path(), cache_path("f00").parent_path());
  EXPECT_EQ(profile_path("f00").filename(), "f00.profile.json");
}

}  // namespace
}  // namespace smelt
