// What a sanitizer's runtime has, statically linked: it stands between the program and the C library.
int pthread_create(void) { return -1; }
int sigaction(void) { return -1; }
