/*
 * bench_fork: what a process costs that shares its memory with a child.
 *
 * Filled with text; then, for each line of standard input, one round: the memory is written anew, and each of these
 * is timed after a fork of its own: the fork, a child that reads all, the parent that reads all, or writes all, while a child
 * is there, and a child that writes all and has a child of its own, both of which read all.
 *
 * usage: bench_fork MIB
 */
#include "bench.h"
#include <sys/wait.h>

static char *memory;
static uint64_t pages;
/* Shared with children. */
static struct {
    _Atomic uint64_t wrong, read_ns;
} *told;

static void write_all(void)
{
    for (uint64_t n = 0; n < pages; n++) fill_page(memory + n * PAGE, TEXT, n);
}

static void read_all(void)
{
    for (uint64_t n = 0; n < pages; n++) told->wrong += page_is_wrong(memory + n * PAGE, TEXT, n);
}

/* A child that runs `body`; the pipe it is given ends when its parent has done its part. */
static pid_t child(void (*body)(int), int *end)
{
    int pipes[2];
    if (pipe(pipes)) fail("pipe");
    pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (pid == 0) {
        close(pipes[1]);
        body(pipes[0]);
        _exit(0);
    }
    close(pipes[0]);
    *end = pipes[1];
    return pid;
}

static void join(pid_t pid, int end)
{
    int status;
    close(end);
    if (waitpid(pid, &status, 0) != pid || status) fail("a child");
}

static void stay(int pipe)
{
    char byte;
    while (read(pipe, &byte, 1) > 0) {
    }
}

static void reads(int pipe)
{
    (void)pipe;
    uint64_t begin = now_ns();
    read_all();
    told->read_ns = now_ns() - begin;
}

static void writes_and_forks(int pipe)
{
    (void)pipe;
    int end;
    write_all();
    pid_t grandchild = child(reads, &end);
    read_all();
    join(grandchild, end);
}

/* The pager's time, and all memory the parent's own again. */
static void begin_anew(void)
{
    write_all();
    usleep(200000);
}

static double since_ms(uint64_t begin) { return (double)(now_ns() - begin) / 1e6; }

static double beside_a_child(void (*work)(void))
{
    int end;
    begin_anew();
    pid_t pid = child(stay, &end);
    uint64_t begin = now_ns();
    work();
    double took = since_ms(begin);
    join(pid, end);
    return took;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: bench_fork MIB\n");
        return 2;
    }
    pages = strtoull(argv[1], NULL, 0) * (MIB / PAGE);
    if (!pages) return 2;
    make_patterns();
    told = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED) fail("mmap");
    hello();
    memory = map_bytes(pages * PAGE);
    write_all();
    printf("{\"step\":\"filled\"}\n");
    while (getchar() != EOF) {
        int end;
        begin_anew();
        uint64_t begin = now_ns();
        pid_t pid = child(stay, &end);
        double forking = since_ms(begin);
        join(pid, end);

        begin_anew();
        pid = child(reads, &end);
        join(pid, end);
        double child_reads = (double)told->read_ns / 1e6;

        double parent_reads = beside_a_child(read_all), parent_writes = beside_a_child(write_all);

        begin_anew();
        begin = now_ns();
        pid = child(writes_and_forks, &end);
        join(pid, end);
        double generations = since_ms(begin);

        printf("{\"step\":\"round\",\"fork_ms\":%.3f,\"child_reads_ms\":%.3f,\"parent_reads_ms\":%.3f,"
               "\"parent_writes_ms\":%.3f,\"generations_ms\":%.3f,\"wrong\":%" PRIu64 "}\n",
               forking, child_reads, parent_reads, parent_writes, generations, told->wrong);
    }
    return 0;
}
