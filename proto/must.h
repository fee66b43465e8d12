/*
 * must(): a fact that only a bug can falsify. Kept in release builds; if it is false, the place is
 * printed and the process aborts, because it has lost its invariants. Never used on input, which
 * gives an enum result.
 */
#ifndef SHOAL_PROTO_MUST_H
#define SHOAL_PROTO_MUST_H

#include <stddef.h>

#define must(fact)                                                                                 \
    do {                                                                                           \
        if (__builtin_expect(!(fact), 0))                                                          \
            must_fail(#fact, __FILE__, __LINE__);                                                  \
    } while (0)

_Noreturn void must_fail(const char *fact, const char *file, int line);

/*
 * Allocation of small, bounded bookkeeping whose size does not come from input: failure is treated
 * as a bug-like end of the process (the supervisor restarts it). Anything whose size input decides
 * uses malloc and returns RESULT_OUT_OF_MEMORY. Memory is zeroed; free() releases it.
 */
void *must_alloc(size_t count, size_t element_bytes);
char *must_strdup(const char *text);

#endif
