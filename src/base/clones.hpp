// Loops that the compiler vectorizes for several instruction sets; the loader picks the one for this CPU.
// Sanitizers run before the loader's choice can.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define SMELT_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SMELT_VECTOR_CLONES
#endif
