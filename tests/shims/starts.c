// Starts a program in one of several ways. Without arguments it prints what is preloaded into itself.
//   starts WAY PROGRAM
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static int say(void) {
  const char* list = getenv("LD_PRELOAD");
  printf("%s\n", list != NULL ? list : "nothing");
  return 0;
}

static int spawned(int code, pid_t child) {
  int status = -1;
  if (code != 0) return code;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int forked(pid_t child) { return spawned(child < 0, child); }

// For the ways that look along PATH: it is put there.
static const char* on_path(const char* program) {
  const char* slash = strrchr(program, '/');
  char* path = malloc(strlen(program) + 32);
  sprintf(path, "/no/such/directory:%.*s", (int)(slash - program), program);
  setenv("PATH", path, 1);
  return slash + 1;
}

int main(int argc, char** argv) {
  if (argc < 3) return say();
  const char* way = argv[1];
  const char* program = argv[2];
  char* const words[] = {argv[2], NULL};
  pid_t child = 0;
  if (strcmp(way, "execve") == 0) execve(program, words, environ);
  if (strcmp(way, "execv") == 0) execv(program, words);
  if (strcmp(way, "execl") == 0) execl(program, program, (char*)NULL);
  if (strcmp(way, "execle") == 0) execle(program, program, (char*)NULL, environ);
  if (strcmp(way, "execvp") == 0) execvp(on_path(program), words);
  if (strcmp(way, "execvpe") == 0) execvpe(on_path(program), words, environ);
  if (strcmp(way, "execlp") == 0) execlp(on_path(program), program, (char*)NULL);
  if (strcmp(way, "fexecve") == 0) fexecve(open(program, O_RDONLY), words, environ);
  if (strcmp(way, "execveat") == 0) execveat(AT_FDCWD, program, words, environ, 0);
  if (strcmp(way, "posix_spawn") == 0) return spawned(posix_spawn(&child, program, NULL, NULL, words, environ), child);
  if (strcmp(way, "posix_spawnp") == 0) {
    const char* name = on_path(program);
    return spawned(posix_spawnp(&child, name, NULL, NULL, words, environ), child);
  }
  if (strcmp(way, "system") == 0) return system(program) >> 8;
  if (strcmp(way, "vfork") == 0) {
    child = vfork();
    if (child == 0) {
      execv(program, words);
      _exit(127);
    }
    return forked(child);
  }
  perror(way);
  return 127;
}
