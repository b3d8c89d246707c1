/* Programs that are not to notice the library, one for each word: each ends with 0 as it does without it. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t barrier;

#ifdef LIBRARY

static void* use(void* argument) {
  pthread_barrier_init(&barrier, NULL, 1);
  pthread_barrier_wait(&barrier);
  return argument;
}

/* Whoever loads this waits for a thread that uses barriers. */
__attribute__((constructor)) static void wait_for_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, use, NULL) == 0) pthread_join(thread, NULL);
}

#else

enum { threads = 5 };

/* Waiting is no cancellation point. */
static void* wait_cancelled(void* argument) {
  pthread_cancel(pthread_self());
  errno = 77; /* of which barriers make no use */
  for (int i = 0; i < 1000; ++i) pthread_barrier_wait(&barrier);
  *(int*)argument = errno == 77;
  pthread_testcancel();
  return NULL;
}

static int cancel(void) {
  pthread_t thread[threads];
  int done[threads] = {0}, wrong = pthread_barrier_init(&barrier, NULL, threads);
  for (int i = 0; i < threads; ++i) wrong += pthread_create(&thread[i], NULL, wait_cancelled, &done[i]) != 0;
  for (int i = 0; i < threads; ++i) {
    void* result = NULL;
    pthread_join(thread[i], &result);
    wrong += done[i] != 1 || result != PTHREAD_CANCELED;
  }
  return wrong != 0 || pthread_barrier_destroy(&barrier) != 0;
}

static void* wait_once(void* argument) {
  pthread_barrier_wait(&barrier);
  return argument;
}

/* A child, while another thread waits for the first time, has barriers of its own. */
static int fork_while_waiting(void) {
  pthread_t thread;
  pthread_barrier_t own;
  int status = 1;
  if (pthread_barrier_init(&barrier, NULL, 2) != 0 || pthread_create(&thread, NULL, wait_once, NULL) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) _exit(pthread_barrier_init(&own, NULL, 1) != 0 || pthread_barrier_destroy(&own) != 0);
  waitpid(child, &status, 0);
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  return status;
}

/* For each a process that waits for the first time. */
static int fork_at_first(void) {
  for (int i = 0; i < 200; ++i) {
    int status = 1;
    const pid_t child = fork();
    if (child == 0) _exit(fork_while_waiting());
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

static int ask_for_error(void) {
  if (dlopen("/nowhere/library.so", RTLD_NOW) != NULL || pthread_barrier_init(&barrier, NULL, 1) != 0) return 1;
  return dlerror() == NULL;
}

int main(int count, char** words) {
  if (count == 3 && strcmp(words[1], "load") == 0) return dlopen(words[2], RTLD_NOW) == NULL;
  if (count == 2 && strcmp(words[1], "cancel") == 0) return cancel();
  if (count == 2 && strcmp(words[1], "fork_at_first") == 0) return fork_at_first();
  return count == 2 && strcmp(words[1], "ask_for_error") == 0 ? ask_for_error() : 2;
}

#endif
