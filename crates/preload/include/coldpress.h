/* What a program can tell the pager that `coldpress run` puts into it. Nothing has to be linked: without a
 * pager the functions are not there, and coldpress_advise_if_managed does nothing. */
#ifndef COLDPRESS_H
#define COLDPRESS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory like any other. */
#define COLDPRESS_NORMAL 0
/* Memory that the program cannot wait for: never taken. */
#define COLDPRESS_LATENCY_SENSITIVE 1

/* Gives advice for the pages of [address, address + length), as madvise does. What the pager has taken of
 * memory that becomes latency-sensitive is back in place when the call returns. The advice lasts until other is
 * given for these addresses, or until they are unmapped or moved; forked children have it, too.
 * 0, or -1 with errno: EINVAL (address not a multiple of the page size, range wraps around, unknown advice),
 * ENOMEM (too many ranges; nothing was changed). */
extern int coldpress_advise(void *address, size_t length, int advice) __attribute__((weak));

/* The same; 0 where there is no pager. */
static inline int coldpress_advise_if_managed(void *address, size_t length, int advice) {
    return coldpress_advise ? coldpress_advise(address, length, advice) : 0;
}

#ifdef __cplusplus
}
#endif

#endif
