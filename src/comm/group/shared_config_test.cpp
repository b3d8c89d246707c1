// The configuration that the creator of a communicator publishes is read as it was written, or refused.
#include "comm/group/shared_config.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace smelt::comm {
namespace {

SharedConfig example() {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 3;
  SharedConfig config;
  config.machine = *synthesize_machine(spec);
  config.group.pus = {5, 0, 2, 3};
  config.options.topology = "binary";
  config.options.algorithm = "text of any kind: 7:\n\"";
  config.options.search_ms = 0.1;  // no finite binary fraction
  config.options.late_ns = {0.0, 1e-300, 12.5, std::numeric_limits<double>::max()};
  config.parallelism = 3;
  config.profile = std::string("{\0}", 3);
  for (int i = 0; i < operation_count && has_tree_plan(static_cast<Operation>(i)); ++i) {
    config.plans[i] = *make_plan(config.machine, config.group, static_cast<Operation>(i), {});
    config.plans[i].reason = "reason " + std::to_string(i);
  }
  return config;
}

TEST(SharedConfig, IsReadAsItWasWritten) {
  const SharedConfig written = example();
  const auto read = parse_shared_config(format_shared_config(written));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->machine, written.machine);
  EXPECT_EQ(read->group, written.group);
  EXPECT_EQ(read->options.topology, written.options.topology);
  EXPECT_EQ(read->options.barrier, written.options.barrier);
  EXPECT_EQ(read->options.algorithm, written.options.algorithm);
  EXPECT_EQ(read->options.search_ms, written.options.search_ms);
  EXPECT_EQ(read->options.late_ns, written.options.late_ns);
  EXPECT_EQ(read->parallelism, written.parallelism);
  EXPECT_EQ(read->profile, written.profile);
  for (int i = 0; i < operation_count && has_tree_plan(static_cast<Operation>(i)); ++i) {
    const Plan &is = read->plans[i], &was = written.plans[i];
    EXPECT_EQ(is.topology, was.topology) << i;
    EXPECT_EQ(is.reduce_tree, was.reduce_tree) << i;
    EXPECT_EQ(is.broadcast_tree, was.broadcast_tree) << i;
    EXPECT_EQ(is.reason, was.reason) << i;
  }
}

TEST(SharedConfig, CutOffIsRefused) {
  const std::string text = format_shared_config(example());
  for (std::size_t bytes = 0; bytes < text.size(); bytes += 7) {
    EXPECT_FALSE(parse_shared_config(std::string_view(text).substr(0, bytes))) << bytes << " of " << text.size();
  }
  EXPECT_FALSE(parse_shared_config(text + "}"));
  EXPECT_FALSE(parse_shared_config(R"({"machine": {}, "group": [0, 1]})"));
}

}  // namespace
}  // namespace smelt::comm
