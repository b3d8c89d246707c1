// What the pages show in C++, as programs: a page's block is a run of lines of this file or of an example.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <smelt/communicator.hpp>
#include <smelt/exact_sum.hpp>
#include <smelt/graph_algorithms.hpp>
#include <smelt/green_marl.hpp>
#include <smelt/measure.hpp>
#include <string>
#include <vector>

#include "expect.hpp"

namespace {

double work(int rank, int size) { return static_cast<double>(rank + 1) / size; }

void first_steps() {
  auto communicator = smelt::Communicator::create();     // one rank per core that may be used
  auto ran = communicator->run([&](smelt::Rank& rank) {  // one pinned thread per rank
    double part = work(rank.rank(), rank.size()), total = 0;
    rank.allreduce(&part, &total, 1, smelt::sum<double>());
    rank.barrier();
  });
  if (!ran) std::puts(ran.error().message.c_str());
  expect(bool(ran), "the first steps lead somewhere");
}

void the_same_bits(smelt::Rank& rank) {
  const double in[] = {0.1, 0.2}, part[] = {1e300, 1.0, -1e300};
  const std::size_t n = 2;
  double out[2] = {};
  {
    smelt::Reduction add = smelt::sum<double>();
    add.reproducible = true;
    rank.allreduce(in, out, n, add);
  }
  {
    double total = 0;
    smelt::sum_exactly(rank, part, n, &total);  // all ranks' parts, whatever their lengths
    expect(total > 0, "the first two add up to something");
  }
  {
    smelt::ExactSum mine, all;
    mine.add(part, n);  // double or float, one by one or arrays
    rank.allreduce(&mine, &all, 1, smelt::exact_sum());
    double total = all.to_double();  // or to_float(): rounded once, not twice
    expect(total > 0, "the same by hand");
  }
}

/// One process of two, which lose the other one.
bool goes_on_alone(const std::string& name, int rank) {
  const int size = 2, n = 1, in[] = {1};
  int out[] = {0};
  bool told = false;
  const int mine[] = {rank};
  auto communicator = smelt::Communicator::create_shared(name, size, mine);
  auto self = communicator->attach(rank);
  if (rank == 1) std::_Exit(0);
  if (self->allreduce(in, out, n, smelt::sum<int>()) == smelt::Status::broken) {
    puts(self->failure().c_str());    // "rank 1 (process 4711) died"
    auto survivors = self->shrink();  // planned anew; work goes on
    told = survivors && survivors->size() == 1;
  }
  return told;
}

void processes() {
  const auto name = "docs-" + std::to_string(getpid());
  const auto child = fork();
  if (child == 0) std::_Exit(goes_on_alone(name, 1) ? 0 : 1);
  expect(goes_on_alone(name, 0), "the survivor goes on");
  waitpid(child, nullptr, 0);
}

void measuring() {
  smelt::MeasureOptions options;
  options.budget_s = 10.0;
  options.progress = [](const smelt::MeasureProgress& p) { static_cast<void>(p.fraction); };
  options.quick = true;
  smelt::Result<smelt::Machine> machine = smelt::measure_machine(options);
  // A machine of one PU has nothing to measure. The call reports that.
  expect(machine || !machine.error().message.empty(), "a model, or a reason");
}

void graphs() {
  std::ofstream("links.el") << "0 1\n0 2\n1 2\n2 0\n3 2\n";
  std::ofstream("rank.gm") << "Procedure count(G: Graph) : Long {\n  Return G.NumNodes();\n}\n";
  auto graph = smelt::graph::load("links.el");
  auto ranks = smelt::graph::pagerank(*graph);  // ready
  auto program = smelt::graph::GreenMarl::read("rank.gm")->compile(graph->node_id_bytes(), graph->edge_id_bytes());
  expect(ranks && ranks->rank.size() == 4, "four nodes have a rank");
  expect(program || !program.error().message.empty(), "compiled, or a reason");
}

}  // namespace

int main() {
  char place[] = "/tmp/smelt-docs-XXXXXX";
  if (mkdtemp(place) == nullptr || chdir(place) != 0) return 2;
  processes();  // first, as it forks
  first_steps();
  expect(bool(smelt::Communicator::create()->run(the_same_bits)), "all ranks came to an end");
  measuring();
  graphs();
  for (const char* file : {"links.el", "rank.gm"}) unlink(file);
  return failures + rmdir(place);
}
