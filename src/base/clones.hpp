// Function clones that the compiler vectorizes for several instruction sets. The dynamic loader selects one for the
// CPU. Not with sanitizers, whose runtime is not initialized when the loader selects.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define SMELT_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SMELT_VECTOR_CLONES
#endif
