// The same collective is repeated on other buffers, in place and not. In between there are calls that are nearly the
// same, that use the program's own datatype or operator, or that use the same slot of the shim's cache. Blocks have one
// size or different ones.
//
//   mpirun -n N repeats
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support.hpp"

namespace {

using shim_test::require;
using Numbers = std::vector<long>;

int rank, size;

long given(int by, int turn, int at) { return 1000L * (by + 1) + 100000L * turn + at; }
long sum_of(int ranks, int turn, int at) {
  long sum = 0;
  for (int by = 0; by < ranks; ++by) sum += given(by, turn, at);
  return sum;
}

/// What one turn of an operation is called with; buffers hold `size` times `count` numbers.
struct Turn {
  long* in;
  long* out;
  int count, root, number;
  bool in_place;
  MPI_Comm comm;
  MPI_Datatype type = MPI_LONG;
  MPI_Op op = MPI_SUM;
  int each = 1;  ///< numbers of an element

  int elements() const { return count / each; }
};

struct Repeated {
  const char* name;
  bool combines;
  std::function<void(const Turn&)> call;
  /// Number `at` of what this rank has then, of `blocks` blocks.
  int blocks;
  std::function<long(const Turn&, int at)> wanted;
  bool root_alone = false;
  bool into_in = false;  ///< in place the result is in `in`
};

/// Blocks of different sizes, one per rank: every other is an element shorter than its place. Some turns have them in
/// reverse, with the same counts.
struct Blocks {
  std::vector<int> counts, offsets, bytes;
  std::vector<MPI_Datatype> types;

  explicit Blocks(const Turn& turn, int first = 0) {
    for (int block = 0; block < size; ++block) {
      counts.push_back(length(turn, first + block) / turn.each);
      offsets.push_back(place(turn, block) * turn.elements());
      bytes.push_back(place(turn, block) * turn.count * static_cast<int>(sizeof(long)));
      types.push_back(turn.type);
    }
  }
  static int place(const Turn& turn, int block) {
    return turn.number % 4 == 3 && !turn.in_place ? size - 1 - block : block;
  }
  static int length(const Turn& turn, int block) { return turn.count - block % 2 * turn.each; }
};

/// Operations that give each rank one block from every rank.
long wanted_of_all(const Turn& turn, int at) {
  const int block = Blocks::place(turn, at / turn.count), k = at % turn.count;
  return k < Blocks::length(turn, block) ? given(block, turn.number, k) : -1;
}
long wanted_of_exchange(const Turn& turn, int at) {
  const int block = Blocks::place(turn, at / turn.count), k = at % turn.count;
  if (k >= Blocks::length(turn, rank + block)) return -1;
  return given(block, turn.number, Blocks::place(turn, rank) * turn.count + k);
}
int elements_before(const Turn& turn, int block) {
  int before = 0;
  for (int each = 0; each < block; ++each) before += Blocks::length(turn, each);
  return before;
}

std::vector<Repeated> uneven_operations() {
  return {
      {"scatterv", false,
       [](const Turn& t) {
         const Blocks blocks(t);
         const bool top = rank == t.root, in_place = t.in_place && top;
         // Others may give anything for what counts on the root alone.
         const int* const nowhere = reinterpret_cast<const int*>(8);
         MPI_Scatterv(t.in, top ? blocks.counts.data() : nowhere, top ? blocks.offsets.data() : nowhere, t.type,
                      in_place ? MPI_IN_PLACE : t.out, blocks.counts[static_cast<std::size_t>(rank)], t.type, t.root,
                      t.comm);
       },
       1,
       [](const Turn& t, int at) {
         const bool none = (t.in_place && rank == t.root) || at >= Blocks::length(t, rank);
         return none ? -1 : given(t.root, t.number, Blocks::place(t, rank) * t.count + at);
       }},
      {"gatherv", false,
       [](const Turn& t) {
         const Blocks blocks(t);
         const bool top = rank == t.root, in_place = t.in_place && top;
         const int* const nowhere = reinterpret_cast<const int*>(8);
         MPI_Gatherv(in_place ? MPI_IN_PLACE : t.in, blocks.counts[static_cast<std::size_t>(rank)], t.type, t.out,
                     top ? blocks.counts.data() : nowhere, top ? blocks.offsets.data() : nowhere, t.type, t.root,
                     t.comm);
       },
       0, wanted_of_all, true},
      {"allgatherv", false,
       [](const Turn& t) {
         const Blocks blocks(t);
         MPI_Allgatherv(t.in_place ? MPI_IN_PLACE : t.in, blocks.counts[static_cast<std::size_t>(rank)], t.type, t.out,
                        blocks.counts.data(), blocks.offsets.data(), t.type, t.comm);
       },
       0, wanted_of_all},
      {"alltoallv", false,
       [](const Turn& t) {
         const Blocks blocks(t, rank);
         MPI_Alltoallv(t.in_place ? MPI_IN_PLACE : t.in, blocks.counts.data(), blocks.offsets.data(), t.type, t.out,
                       blocks.counts.data(), blocks.offsets.data(), t.type, t.comm);
       },
       0, wanted_of_exchange},
      {"alltoallw", false,
       [](const Turn& t) {
         const Blocks blocks(t, rank);
         MPI_Alltoallw(t.in_place ? MPI_IN_PLACE : t.in, blocks.counts.data(), blocks.bytes.data(), blocks.types.data(),
                       t.out, blocks.counts.data(), blocks.bytes.data(), blocks.types.data(), t.comm);
       },
       0, wanted_of_exchange},
      {"reduce_scatter", true,
       [](const Turn& t) {
         const Blocks blocks(t);
         MPI_Reduce_scatter(t.in_place ? MPI_IN_PLACE : t.in, t.out, blocks.counts.data(), t.type, t.op, t.comm);
       },
       1,
       [](const Turn& t, int at) {
         return at < Blocks::length(t, rank) ? sum_of(size, t.number, elements_before(t, rank) + at) : -1;
       }},
  };
}

std::vector<Repeated> operations() {
  const auto by_block = [](const Turn& turn, int at) { return given(at / turn.count, turn.number, at % turn.count); };
  return {
      {"bcast", false,
       [](const Turn& t) { MPI_Bcast(rank == t.root ? t.in : t.out, t.elements(), t.type, t.root, t.comm); }, 1,
       [](const Turn& t, int at) { return rank == t.root ? -1 : given(t.root, t.number, at); }},
      {"reduce", true,
       [](const Turn& t) {
         const bool in_place = t.in_place && rank == t.root;
         MPI_Reduce(in_place ? MPI_IN_PLACE : t.in, t.out, t.elements(), t.type, t.op, t.root, t.comm);
       },
       1, [](const Turn& t, int at) { return sum_of(size, t.number, at); }, true},
      {"allreduce", true,
       [](const Turn& t) {
         MPI_Allreduce(t.in_place ? MPI_IN_PLACE : t.in, t.out, t.elements(), t.type, t.op, t.comm);
       },
       1, [](const Turn& t, int at) { return sum_of(size, t.number, at); }},
      {"scan", true,
       [](const Turn& t) { MPI_Scan(t.in_place ? MPI_IN_PLACE : t.in, t.out, t.elements(), t.type, t.op, t.comm); }, 1,
       [](const Turn& t, int at) { return sum_of(rank + 1, t.number, at); }},
      {"exscan", true,
       [](const Turn& t) { MPI_Exscan(t.in_place ? MPI_IN_PLACE : t.in, t.out, t.elements(), t.type, t.op, t.comm); },
       1, [](const Turn& t, int at) { return rank == 0 ? -1 : sum_of(rank, t.number, at); }},
      {"reduce_scatter_block", true,
       [](const Turn& t) {
         MPI_Reduce_scatter_block(t.in_place ? MPI_IN_PLACE : t.in, t.out, t.elements(), t.type, t.op, t.comm);
       },
       1, [](const Turn& t, int at) { return sum_of(size, t.number, rank * t.count + at); }},
      {"scatter", false,
       [](const Turn& t) {
         const bool in_place = t.in_place && rank == t.root;
         MPI_Scatter(t.in, t.elements(), t.type, in_place ? MPI_IN_PLACE : t.out, t.elements(), t.type, t.root, t.comm);
       },
       1,
       [](const Turn& t, int at) {
         return t.in_place && rank == t.root ? -1 : given(t.root, t.number, rank * t.count + at);
       }},
      {"gather", false,
       [](const Turn& t) {
         const bool in_place = t.in_place && rank == t.root;
         MPI_Gather(in_place ? MPI_IN_PLACE : t.in, t.elements(), t.type, t.out, t.elements(), t.type, t.root, t.comm);
       },
       0, by_block, true},
      {"allgather", false,
       [](const Turn& t) {
         MPI_Allgather(t.in_place ? MPI_IN_PLACE : t.in, t.elements(), t.type, t.out, t.elements(), t.type, t.comm);
       },
       0, by_block},
      {"alltoall", false,
       [](const Turn& t) {
         MPI_Alltoall(t.in_place ? MPI_IN_PLACE : t.in, t.elements(), t.type, t.out, t.elements(), t.type, t.comm);
       },
       0, [](const Turn& t, int at) { return given(at / t.count, t.number, rank * t.count + at % t.count); }},
  };
}

/// One turn on buffers of its own.
void take(const Repeated& what, Turn turn) {
  const auto all = static_cast<std::size_t>(size * turn.count);
  Numbers in(all), out(all, -1);
  for (std::size_t k = 0; k < all; ++k) in[k] = given(rank, turn.number, static_cast<int>(k));
  const std::string name = what.name;
  if (turn.in_place) {
    const bool own_block = name.find("gather") != std::string::npos;
    const auto first = static_cast<std::size_t>(rank * turn.count), block = static_cast<std::size_t>(turn.count);
    for (std::size_t k = 0; k < all; ++k) {
      if (!own_block) out[k] = in[k];
      if (own_block && k - first < block) out[k] = in[k - first];
    }
  }
  turn.in = in.data();
  turn.out = out.data();
  what.call(turn);
  if (what.root_alone && rank != turn.root) return;
  const int count = turn.count * (what.blocks == 0 ? size : what.blocks);
  for (int at = 0; at < count; ++at) {
    const long wanted = what.wanted(turn, at);
    if (wanted >= 0) require(out[static_cast<std::size_t>(at)] == wanted, name.c_str());
  }
}

void add(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<long*>(inout)[i] += static_cast<long*>(in)[i];
}

void add_backwards(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = *count; i-- > 0;) static_cast<long*>(inout)[i] += static_cast<long*>(in)[i];
}

void repeat_all(MPI_Comm comm) {
  std::vector<Repeated> all = operations();
  for (Repeated& each : uneven_operations()) all.push_back(std::move(each));
  for (const Repeated& what : all) {
    for (int number = 0; number < 40; ++number) {
      // Counts of 3 and 19 want the same place.
      const int count = number % 10 < 6 ? 3 : number % 2 == 0 ? 19 : 3;
      take(what, {.in = nullptr,
                  .out = nullptr,
                  .count = count,
                  .root = number < 30 ? size - 1 : number % size,
                  .number = number,
                  .in_place = number % 20 > 12,
                  .comm = comm});
    }
    // The same but for what the program frees and makes anew, perhaps under the handle that it had.
    for (int number = 0; number < 12; ++number) {
      const int each = what.combines ? 1 : 1 + number % 3;
      MPI_Datatype type;
      MPI_Type_contiguous(each, MPI_LONG, &type);
      MPI_Type_commit(&type);
      MPI_Op op = MPI_OP_NULL;
      MPI_Op_create(number % 2 == 0 ? &add : &add_backwards, 1, &op);
      for (int time = 0; time < 3; ++time) {
        take(what, {.in = nullptr,
                    .out = nullptr,
                    .count = 3 * each,
                    .root = size - 1,
                    .number = number,
                    .in_place = false,
                    .comm = comm,
                    .type = what.combines ? MPI_LONG : type,
                    .op = what.combines ? op : MPI_SUM,
                    .each = each});
      }
      MPI_Op_free(&op);
      MPI_Type_free(&type);
      take(what, {.in = nullptr,
                  .out = nullptr,
                  .count = 3,
                  .root = size - 1,
                  .number = number,
                  .in_place = false,
                  .comm = comm});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repeat_all(MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    repeat_all(comm);
    MPI_Comm_free(&comm);
  }
  if (rank == 0) std::printf("all right\n");
  MPI_Finalize();
}
