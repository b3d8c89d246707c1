/* Whether MPI is where a program looks for it, and not where it is not: with the shim as without.

   asks                    no MPI in the process: none is to be found
   asks LIBRARY ANSWER...  libraries that are loaded for themselves, by dlopen: each is answered by its own MPI

   With -DLINKED the program is linked with stranger.c. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef LINKED
int MPI_Barrier(void* comm);
#else
__attribute__((weak)) int MPI_Barrier(void* comm);
#endif
__attribute__((weak)) int MPI_Bcast_c(void);
__attribute__((weak)) int MPIX_Bcast_init(void);

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

int main(int argc, char** argv) {
#ifdef LINKED
  require(MPI_Barrier(0) == ANSWER, "the library that the program is linked with does not answer");
  require(dlsym(RTLD_DEFAULT, "MPI_Barrier") != 0, "a function of the library is not found");
#else
  require(MPI_Barrier == 0, "a weak reference to MPI_Barrier is bound, without any MPI");
  require(dlsym(RTLD_DEFAULT, "MPI_Barrier") == 0, "MPI_Barrier is found, without any MPI");
#endif
  for (int i = 1; i + 1 < argc; i += 2) {
    void* const library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    require(library != 0, "a library cannot be loaded");
    int (*const use)(void) = (int (*)(void))dlsym(library, "use");
    for (int again = 0; again < 3; ++again) require(use() == 2 * atoi(argv[i + 1]), "another MPI answered");
  }
  require(MPI_Bcast_c == 0 && MPIX_Bcast_init == 0, "a weak reference is bound to what no library has");
  require(dlsym(RTLD_DEFAULT, "MPI_Bcast_c") == 0, "a function is found that no library has");
  puts("all right");
  return 0;
}
