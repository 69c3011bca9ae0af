/* Nobody hangs unnoticed: every thread says in a cell which page it is at and what it does there. Four
 * times a second a process of its own looks. Who has been at the same step for `PATIENCE_MS` is reported:
 * who it is, which page, what the kernel says of every thread of its process, what the pager says of
 * itself (VERIFY_STATUS names the command that asks it). Then the program is aborted.
 *
 * Cells stand in a shared file without a name: never evicted, seen by forked children, and by the
 * watchdog, which has no memory that the pager could take: it is this program, executed anew. It is
 * started before anything is allocated. */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include "common.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { CELLS = 64, PATIENCE_MS = 5000, LOOK_MS = 250 };

struct cell {
    _Atomic int busy; /* 0: nobody is here, or waits for another who has a cell */
    _Atomic int process, thread;
    _Atomic intptr_t what; /* from `anchor`: both processes have it, at places of their own */
    _Atomic uintptr_t at;   /* page, or 0 */
    _Atomic uint64_t beat;  /* counts steps */
};

struct watched {
    struct cell cells[CELLS];
    _Atomic int ask, told; /* the program wants its statistics to be shown; they were */
};

static const char anchor[] = "nothing";
static struct watched *watched;

static UNUSED struct cell *cell_of(unsigned number) { return &watched->cells[number]; }

static UNUSED void here(struct cell *c) {
    c->process = getpid();
    c->thread = syscall(SYS_gettid);
}

static UNUSED inline void step(struct cell *c, const char *what, const void *at) {
    atomic_store_explicit(&c->what, what - anchor, memory_order_relaxed);
    atomic_store_explicit(&c->at, (uintptr_t)at, memory_order_relaxed);
    atomic_store_explicit(&c->busy, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->beat, 1, memory_order_relaxed);
}

/* What it waits for now is another's business. */
static UNUSED void step_aside(struct cell *c) { c->busy = 0; }

/* Has the statistics shown, for three seconds at most. */
static UNUSED void show_statistics(void) {
    watched->ask = 1;
    for (unsigned i = 0; i < 300 && !watched->told; i++) sleep_ms(10);
}

/* --- in the other process */

static void show_file(const char *path, const char *name) {
    char text[8192];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (n < 0) dprintf(1, "  %s: %s\n", name, strerror(errno));
    else dprintf(1, "  %s: %.*s%s", name, (int)n, text, n && text[n - 1] == '\n' ? "" : "\n");
    if (file >= 0) close(file);
}

static void show_threads(int process, int stuck) {
    static const char *files[] = {"stat", "wchan", "syscall", "stack"};
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.') continue;
        dprintf(1, "thread %s of process %d%s\n", task->d_name, process,
                atoi(task->d_name) == stuck ? " (the stuck one)" : "");
        for (unsigned f = 0; f < 4; f++) {
            snprintf(path, sizeof path, "/proc/%d/task/%s/%s", process, task->d_name, files[f]);
            show_file(path, files[f]);
        }
    }
    if (tasks) closedir(tasks);
}

static void show_pager(int process) {
    const char *command = getenv("VERIFY_STATUS");
    char line[512];
    snprintf(line, sizeof line, "timeout 3 '%s' status %d --json 2>&1", command, process);
    if (command && system(line)) dprintf(1, "(no statistics)\n");
}

static UNUSED int watch(const char *file, const char *program) {
    int process = atoi(program);
    watched = mmap(NULL, sizeof *watched, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(file), 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (watched == MAP_FAILED || getppid() != process) return 1;
    uint64_t seen[CELLS] = {0};
    unsigned still[CELLS] = {0};
    for (;; sleep_ms(LOOK_MS)) {
        if (watched->ask && !watched->told) {
            show_pager(process);
            watched->told = 1;
        }
        for (unsigned i = 0; i < CELLS; i++) {
            const struct cell *c = cell_of(i);
            uint64_t beat = c->beat;
            still[i] = c->busy && beat == seen[i] ? still[i] + 1 : 0;
            seen[i] = beat;
            if (still[i] * LOOK_MS < PATIENCE_MS) continue;
            unsigned long page = c->at & -PAGE;
            dprintf(1, "STUCK: thread %d of process %d has been at page %#lx for %d ms: %s\n", c->thread, c->process,
                    page, PATIENCE_MS, anchor + c->what);
            show_threads(c->process, c->thread);
            if (c->process != process) show_threads(process, 0);
            show_pager(process);
            dprintf(1, "WRONG: stuck for %d ms at page %#lx\n", PATIENCE_MS, page);
            kill(process, SIGABRT);
            return 1;
        }
    }
}

/* Makes the cells and starts the watchdog. First of all in `main`, which calls `watch` with its second and third
 * argument where the first is "watch". */
static UNUSED void start_watchdog(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* aborting shall not take long */
    int file = memfd_create("cells", 0);
    if (file < 0 || ftruncate(file, sizeof *watched)) die_errno("cells");
    watched = mmap(NULL, sizeof *watched, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (watched == MAP_FAILED) die_errno("cells");
    char number[16], me[16];
    snprintf(number, sizeof number, "%d", file);
    snprintf(me, sizeof me, "%d", getpid());
    pid_t pid = vfork();
    if (pid < 0) die_errno("vfork");
    if (pid == 0) {
        execl("/proc/self/exe", "verify", "watch", number, me, NULL);
        _exit(98);
    }
    close(file);
}

#endif
