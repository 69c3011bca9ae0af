/*
 * bench_grow: take memory and fill it as fast as it goes, then read all of it back and compare.
 *
 * CONTENTS is `text` (compresses), `half` (every other page does, at random) or `noise` (none does).
 * HOW is `one` (a single mapping) or `pieces` (a mapping of 1 MiB at a time, as malloc takes
 * large blocks: memory that nobody can know of before it is there).
 *
 * usage: bench_grow MIB CONTENTS HOW
 */
#include "bench.h"

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: bench_grow MIB CONTENTS HOW\n");
        return 2;
    }
    size_t pieces = strtoull(argv[1], NULL, 0), per_piece = MIB / PAGE;
    enum contents contents = contents_named(argv[2]);
    int one = !strcmp(argv[3], "one");
    char **at = map_bytes(pieces * sizeof *at);
    make_patterns();
    hello();

    uint64_t begin = now_ns();
    char *whole = one ? map_bytes(pieces * MIB) : NULL;
    for (size_t n = 0; n < pieces; n++) {
        at[n] = one ? whole + n * MIB : map_bytes(MIB);
        for (size_t i = 0; i < per_piece; i++) fill_page(at[n] + i * PAGE, contents, n * per_piece + i);
    }
    uint64_t filled = now_ns();
    printf("{\"step\":\"filled\",\"begin_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64 "}\n", begin, filled);

    uint64_t wrong = 0;
    for (size_t n = 0; n < pieces; n++)
        for (size_t i = 0; i < per_piece; i++)
            wrong += page_is_wrong(at[n] + i * PAGE, contents, n * per_piece + i);
    printf("{\"step\":\"read\",\"begin_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n",
           filled, now_ns(), wrong);
    return wrong != 0;
}
