// MPI_T's control variables: the shim's among the library's.
//
//   mpirun -n 1 variables NUMBER   of control variables that are the shim's
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "support.hpp"

namespace {

using shim_test::require;

struct Info {
  std::string name, description;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int verbosity = 0, bind = 0, scope = 0;
};

int number_of_variables() {
  int number = 0;
  require(MPI_T_cvar_get_num(&number) == MPI_SUCCESS, "the number of variables");
  return number;
}

/// Without a name if the library has withdrawn that one.
Info info_of(int index) {
  Info info;
  char name[1024], description[4096];
  int name_length = sizeof name, description_length = sizeof description;
  MPI_T_enum values;
  if (MPI_T_cvar_get_info(index, name, &name_length, &info.verbosity, &info.type, &values, description,
                          &description_length, &info.bind, &info.scope) != MPI_SUCCESS) {
    return info;
  }
  info.name = name;
  info.description = description_length > 0 ? description : "";
  return info;
}

/// By their names variables are found. Returns the indices by name.
std::map<std::string, int> list() {
  std::map<std::string, int> all;
  const int number = number_of_variables();
  for (int i = 0; i < number; ++i) all[info_of(i).name] = i;
  all.erase("");
  for (const auto& [name, at] : all) {
    int found = -1;
    require(MPI_T_cvar_get_index(name.c_str(), &found) == MPI_SUCCESS, "a variable by its name: " + name);
    require(info_of(found).name == name, "the index of " + name);
  }
  return all;
}

int read_number(int index) {
  MPI_T_cvar_handle handle;
  int count = 0, value = -1;
  require(MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS && count == 1, "a handle");
  require(MPI_T_cvar_read(handle, &value) == MPI_SUCCESS, "a value");
  require(MPI_T_cvar_write(handle, &value) == MPI_T_ERR_CVAR_SET_NEVER, "a value that cannot be written");
  require(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS && handle == MPI_T_CVAR_HANDLE_NULL, "a handle that is freed");
  return value;
}

std::string read_text(int index) {
  MPI_T_cvar_handle handle;
  int count = 0;
  require(MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS && count > 1, "a handle of a text");
  std::string text(static_cast<std::size_t>(count), '?');
  require(MPI_T_cvar_read(handle, text.data()) == MPI_SUCCESS, "a text");
  require(MPI_T_cvar_write(handle, text.data()) == MPI_T_ERR_CVAR_SET_NEVER, "a text that cannot be written");
  MPI_T_cvar_handle_free(&handle);
  return text.c_str();
}

void check_ours(const std::map<std::string, int>& all) {
  require(read_number(all.at("SMELT_MPI")) == 1, "SMELT_MPI");
  require(read_number(all.at("SMELT_MPI_AFTER")) == 7, "SMELT_MPI_AFTER");
  require(read_number(all.at("SMELT_MPI_RACE")) == 9, "SMELT_MPI_RACE");
  require(read_number(all.at("SMELT_VERBOSE")) == 0, "SMELT_VERBOSE");
  require(read_text(all.at("SMELT_MPI_MACHINE")) == "here", "SMELT_MPI_MACHINE");
  require(read_text(all.at("SMELT_TIMEOUT")).empty(), "SMELT_TIMEOUT");
  const Info info = info_of(all.at("SMELT_WAIT"));
  require(info.type == MPI_CHAR && info.bind == MPI_T_BIND_NO_OBJECT && info.scope == MPI_T_SCOPE_CONSTANT &&
              info.verbosity == MPI_T_VERBOSITY_USER_BASIC && !info.description.empty(),
          "what is said about SMELT_WAIT");
  char name[6];
  int length = sizeof name;
  require(MPI_T_cvar_get_info(all.at("SMELT_WAIT"), name, &length, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                              nullptr) == MPI_SUCCESS &&
              std::strcmp(name, "SMELT") == 0 && length == 11,
          "a name that is cut");
}

/// The library's own variables can be read, and written if the library allows it.
void check_the_librarys(const std::map<std::string, int>& all) {
#ifdef OPEN_MPI
  const std::string name = "mpi_show_handle_leaks";
#else
  const std::string name = "MPIR_CVAR_CH4_OFI_ENABLE_HMEM";
  if (all.count(name) == 0) return;
#endif
  MPI_T_cvar_handle handle;
  int count = 0, value = -1, again = -1;
  require(MPI_T_cvar_handle_alloc(all.at(name), nullptr, &handle, &count) == MPI_SUCCESS, "a handle of the library");
  require(MPI_T_cvar_read(handle, &value) == MPI_SUCCESS, "a value of the library");
  const int written = MPI_T_cvar_write(handle, &value);
  require(written != MPI_T_ERR_INVALID_HANDLE, "a write to the library");
  require(MPI_T_cvar_read(handle, &again) == MPI_SUCCESS && again == value, "a value of the library, again");
  require(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS, "a handle of the library that is freed");
}

/// Categories name variables by the indices that the program knows: none of them the shim's.
void check_categories() {
  int categories = 0, listed = 0;
  MPI_T_category_get_num(&categories);
  for (int i = 0; i < categories; ++i) {
    char name[1024], description[4096];
    int name_length = sizeof name, description_length = sizeof description, variables = 0, pvars = 0, parts = 0;
    MPI_T_category_get_info(i, name, &name_length, description, &description_length, &variables, &pvars, &parts);
    // Open MPI 4.1 lists categories that it has withdrawn.
    if (variables == 0 || PLAIN(T_category_get_cvars)(i, variables, std::vector<int>(10'000).data()) != 0) continue;
    std::vector<int> indices(static_cast<std::size_t>(variables), -2);
    require(MPI_T_category_get_cvars(i, variables, indices.data()) == MPI_SUCCESS, "a category");
    for (const int each : indices) {
      require(each >= 0 && info_of(each).name.rfind("SMELT_", 0) != 0, "a variable of a category");
    }
    listed += variables;
  }
  require(listed > 0, "variables in categories");
}

/// Open MPI 4.1 says of any such thing that it is invalid.
int error_beyond() {
#ifdef OPEN_MPI
  return MPI_T_ERR_INVALID;
#else
  return MPI_T_ERR_INVALID_INDEX;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const int extra = argc > 1 ? std::atoi(argv[1]) : 0;
  int number = 0, provided = 0;
  require(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED, "MPI_T before its initialization");
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  const auto before = list();
  int plain = 0;
  PLAIN(T_cvar_get_num)(&plain);
  require(number_of_variables() == plain + extra, "a variable too many, or too few");
  // The library gets more, or withdraws some, and no index changes.
  MPI_Init(&argc, &argv);
  const auto after = list();
  for (const auto& [name, index] : before) {
    const auto now = info_of(index).name;
    require(now == name || now.empty(), "an index that has changed");
  }
  if (extra > 0) check_ours(after);
  check_the_librarys(after);
  check_categories();
  MPI_T_cvar_handle handle;
  int count = 0;
  const int beyond = number_of_variables();
  require(MPI_T_cvar_handle_alloc(beyond, nullptr, &handle, &count) == error_beyond(), "a handle beyond the last");
  require(MPI_T_cvar_handle_alloc(-1, nullptr, &handle, &count) == error_beyond(), "a handle before the first");
  std::printf("%zu variables before MPI_Init, %zu after\n", before.size(), after.size());
  MPI_T_finalize();  // Open MPI 4.1 crashes after MPI_Finalize
  MPI_Finalize();
}
