/* What a program sees of its descriptors and signals, its memory, and its end.
 *
 *   hostile_outputs FILE STATUS [MIB]
 *
 * Writes to FILE which of the descriptors 0 to 2 are open, what SIGPIPE and SIGXFSZ do, and the variables of its
 * environment that a run could have changed; fills MIB of memory, waits until a good part of it has been taken (the
 * pager's doing), reads it back, and exits with STATUS. FILE is opened first and last, so that it is
 * seen where it would land. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int open_ones = 0;
    for (int fd = 0; fd < 3; fd++) open_ones |= (fcntl(fd, F_GETFD) >= 0) << fd;
    int first = open("/dev/null", O_RDONLY);
    if (first > 2) close(first);
    struct sigaction pipe, size;
    sigaction(SIGPIPE, NULL, &pipe);
    sigaction(SIGXFSZ, NULL, &size);

    size_t pages = argc > 3 ? (size_t)atoi(argv[3]) << 8 : 0;
    char *memory = mmap(0, (pages + 1) << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t n = 0; n < pages; n++)
        for (size_t at = 0; at < 4096; at += 8) *(size_t *)(memory + n * 4096 + at) = n * 31 + at / 64;
    for (int turn = 0; pages && getenv("PROMISES_MANAGED") && turn < 600; turn++) {
        static unsigned char in[1 << 20];
        size_t there = 0;
        mincore(memory, pages << 12, in);
        for (size_t n = 0; n < pages; n++) there += in[n] & 1;
        if (there < pages / 2) break;
        usleep(50000);
    }
    for (size_t n = 0; n < pages; n++)
        for (size_t at = 0; at < 4096; at += 8)
            if (*(size_t *)(memory + n * 4096 + at) != n * 31 + at / 64) return 99;

    FILE *file = fopen(argv[1], "w");
    if (!file) return 98;
    fprintf(file, "open %d first %d pipe %d size %d\n", open_ones, first, pipe.sa_handler == SIG_IGN,
            size.sa_handler == SIG_IGN);
    for (char **at = environ; *at; at++)
        if (!strncmp(*at, "COLDPRESS_", 10)) fprintf(file, "%s\n", *at);
    fclose(file);
    return atoi(argv[2]);
}
