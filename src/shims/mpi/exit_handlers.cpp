// No exit handlers for this library's objects, in the place of the C++ library's registration. The library is loaded by
// MPI_Init, so that its handlers would run before those that the program, or its other libraries, have registered
// earlier; and these may still call MPI: an environment in a global object finalizes it. It is never unloaded, so its
// objects stay until the process ends, and so do those of the main thread. (The report is no exit handler.)
#include <unistd.h>

extern "C" {

[[gnu::weak]] int __cxa_thread_atexit_impl(void (*destroy)(void*), void* object, void* library);

int __cxa_atexit(void (*)(void*), void*, void*) noexcept { return 0; }

int __cxa_thread_atexit(void (*destroy)(void*), void* object, void* library) noexcept {
  if (gettid() == getpid() || __cxa_thread_atexit_impl == nullptr) return 0;
  return __cxa_thread_atexit_impl(destroy, object, library);
}

}  // extern "C"
