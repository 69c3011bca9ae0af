/* Everything at once, for as long as one likes: threads write and verify pages under constant eviction, with
 * forks, mremap, munmap, madvise, mprotect, system calls into cold memory, threads that come and go, and
 * signals. What each page must hold is known (verify_pages.h); a stuck thread is reported (watchdog.h).
 * `cargo xtask verify` runs it for as many cycles as it is asked to.
 *
 * Each thread has blocks of its own, a desk (verify_calls.h) and pages that only its signal handler touches.
 * Pages that all threads share have a word each in which a writer says that it writes (a sequence lock).
 *
 * A forked child verifies every page of its thread's blocks and of its desk, writes, and verifies again.
 *
 * Arguments: seed, threads, MiB in all, seconds, milliseconds between the forks of a thread (0: none),
 * share of rare operations in thousandths, whether signals are sent. The books are static and small.
 * VERIFY_SPOIL in the environment: a bit of one page is turned behind everybody's back (does it notice?). */
#include "verify_calls.h"
#include <ucontext.h>

enum { BLOCK_PAGES = 64, MOST_THREADS = 8, MOST_BLOCKS = 384, MOST_SHARED = 8192, SIGNAL_PAGES = 64 };

struct block {
    char *at;
    unsigned pages;
    uint32_t sequence[BLOCK_PAGES];
};

struct worker {
    unsigned index, count;
    struct cell *cell;
    uint64_t state, signal_state, verified, writes, forks, moves, threads, signals, next_fork_ms;
    struct desk desk;
    char *signal_pages;
    uint32_t signal_sequence[SIGNAL_PAGES];
    struct block blocks[MOST_BLOCKS];
};

static struct worker workers[MOST_THREADS];
static char *shared;
static _Atomic uint32_t shared_state[MOST_SHARED]; /* sequence number * 2, + 1 while it is written */
static unsigned shared_pages, rare, fork_every_ms;
static volatile uint64_t now; /* milliseconds, kept by the first thread */
static uint64_t deadline;
static __thread struct worker *self;

static uint64_t page_id(const struct worker *w, const struct block *b, unsigned page) {
    return ((uint64_t)(w->index + 1) << 24) + (b - w->blocks) * BLOCK_PAGES + page;
}

static void check(struct worker *w, const struct block *b, unsigned page, const char *when) {
    const char *at = b->at + page * PAGE;
    step(w->cell, when, at);
    if (wrong_word(at, page_id(w, b, page), b->sequence[page]) >= 0)
        wrong_page(at, page_id(w, b, page), b->sequence[page], when, w->index);
    w->verified++;
}

static void check_block(struct worker *w, const struct block *b, const char *when) {
    for (unsigned p = 0; p < b->pages; p++) check(w, b, p, when);
}

static void write_one(struct worker *w, struct block *b, unsigned page) {
    step(w->cell, "writing", b->at + page * PAGE);
    write_page(b->at + page * PAGE, page_id(w, b, page), ++b->sequence[page]);
    w->writes++;
}

static void write_block(struct worker *w, struct block *b) {
    for (unsigned p = 0; p < b->pages; p++) {
        check(w, b, p, "before it is written");
        write_one(w, b, p);
    }
}

/* --- the address space changes */

static void move(struct worker *w, struct block *b) {
    unsigned pages = 1 + rng(&w->state) % BLOCK_PAGES, kept = pages < b->pages ? pages : b->pages;
    void *at = MAP_FAILED;
    step(w->cell, "mremap", b->at);
    if (rng(&w->state) % 2) { /* where it is, if there is room; it shrinks in any case */
        at = mremap(b->at, b->pages * PAGE, pages * PAGE, 0);
        if (at == MAP_FAILED && errno != ENOMEM) die_errno("mremap in place");
    }
    if (at == MAP_FAILED) {
        char *place = map_region(pages * PAGE);
        at = mremap(b->at, b->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if (at != place) die_errno("mremap");
    }
    b->at = at;
    b->pages = pages;
    for (unsigned p = kept; p < pages; p++) b->sequence[p] = 0;
    check_block(w, b, "after mremap");
    w->moves++;
}

static void replace(struct worker *w, struct block *b) {
    step(w->cell, "munmap", b->at);
    if (munmap(b->at, b->pages * PAGE)) die_errno("munmap");
    b->pages = 1 + rng(&w->state) % BLOCK_PAGES;
    b->at = map_region(b->pages * PAGE);
    memset(b->sequence, 0, sizeof b->sequence);
    check_block(w, b, "fresh memory");
    write_block(w, b);
}

static void map_over(struct worker *w, struct block *b) {
    step(w->cell, "mapping over", b->at);
    if (mmap(b->at, b->pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != b->at)
        die_errno("mmap over");
    memset(b->sequence, 0, sizeof b->sequence);
    check_block(w, b, "after it was mapped over");
    write_block(w, b);
}

static void advise(struct worker *w, struct block *b) {
    static const int kept[] = {MADV_COLD, MADV_WILLNEED, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE};
    unsigned first = rng(&w->state) % b->pages, count = 1 + rng(&w->state) % (b->pages - first);
    unsigned how = rng(&w->state) % 8;
    char *at = b->at + first * PAGE;
    step(w->cell, "madvise", at);
    if (how < 3) {
        if (madvise(at, count * PAGE, MADV_DONTNEED)) die_errno("MADV_DONTNEED");
        memset(b->sequence + first, 0, count * sizeof *b->sequence);
    } else if (how < 5) {
        if (madvise(at, count * PAGE, MADV_FREE)) die_errno("MADV_FREE");
        for (unsigned p = first; p < first + count; p++) {
            step(w->cell, "after MADV_FREE", b->at + p * PAGE);
            if (wrong_word(b->at + p * PAGE, 0, 0) >= 0) check(w, b, p, "after MADV_FREE"); /* not freed yet */
            else b->sequence[p] = 0;
            write_one(w, b, p); /* from here on it stays */
        }
    } else if (madvise(at, count * PAGE, kept[rng(&w->state) % 5]) && errno != EINVAL && errno != EAGAIN)
        die_errno("madvise");
    check_block(w, b, "after madvise");
    write_block(w, b);
}

static void protect(struct worker *w, struct block *b) {
    int to = rng(&w->state) % 2 ? PROT_NONE : PROT_READ;
    step(w->cell, "mprotect", b->at);
    if (mprotect(b->at, b->pages * PAGE, to)) die_errno("mprotect");
    if (to == PROT_READ) check_block(w, b, "while it is read-only");
    else sched_yield();
    step(w->cell, "mprotect", b->at);
    if (mprotect(b->at, b->pages * PAGE, PROT_READ | PROT_WRITE)) die_errno("mprotect");
    check_block(w, b, "after mprotect");
}

/* --- processes and threads */

static void child(struct worker *w, struct cell *cell) {
    self = NULL;
    w->cell = w->desk.cell = cell;
    here(cell);
    for (unsigned i = 0; i < w->count; i++) check_block(w, &w->blocks[i], "in a child");
    for (unsigned p = 0; p < DESK_PAGES; p++) desk_check(&w->desk, p, "in a child");
    for (unsigned i = 0; i < 4; i++) {
        struct block *b = &w->blocks[rng(&w->state) % w->count];
        write_block(w, b);
        move(w, b);
    }
    for (unsigned i = 0; i < 16; i++) structures(&w->desk);
    for (unsigned i = 0; i < w->count; i += 3) check_block(w, &w->blocks[i], "in a child, after it wrote");
    step_aside(cell);
    _exit(0);
}

static void fork_and_verify(struct worker *w) {
    struct cell *cell = cell_of(MOST_THREADS + w->index);
    step(w->cell, "fork", NULL);
    step(cell, "a child begins", NULL);
    pid_t pid = fork();
    if (pid < 0) die_errno("fork");
    if (pid == 0) child(w, cell);
    /* A child that is stuck before its own code runs is seen too. */
    int nobody = 0;
    atomic_compare_exchange_strong(&cell->process, &nobody, pid);
    step_aside(w->cell);
    unsigned page;
    choose_pages(&w->desk, &page, 1);
    int *status = lay(&w->desk, page); /* told into cold memory */
    step_aside(w->cell);
    if (RETRIED(waitpid(pid, status, 0)) != pid) die_errno("waitpid");
    step(w->cell, "after a child", status);
    if (*status) die("seed %llu thread %u: child %d: status %#x", (unsigned long long)seed, w->index, pid, *status);
    clear(&w->desk, page, "waitpid");
    step_aside(cell);
    cell->process = 0;
    w->forks++;
}

static void *short_life(void *context) {
    struct worker *w = context;
    int owner = w->cell->thread;
    here(w->cell);
    struct block *b = &w->blocks[rng(&w->state) % w->count];
    check_block(w, b, "in a short-lived thread");
    write_one(w, b, rng(&w->state) % b->pages);
    step(w->cell, "a thread ends", NULL);
    w->cell->thread = owner;
    return b;
}

static void start_and_join(struct worker *w) {
    step(w->cell, "starting a thread", NULL);
    sigset_t ours, before;
    sigemptyset(&ours), sigaddset(&ours, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &ours, &before); /* it has no pages for the handler */
    pthread_t thread = start_thread(short_life, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    join_thread(thread);
    w->threads++;
}

static void on_signal(int number) {
    (void)number;
    struct worker *w = self;
    if (!w) return;
    int before = errno;
    uintptr_t at = w->cell->at;
    const char *what = anchor + w->cell->what;
    int busy = w->cell->busy;
    unsigned p = rng(&w->signal_state) % SIGNAL_PAGES;
    uint64_t id = (uint64_t)(w->index + 1) << 24 | 3 << 22 | p;
    char *page = w->signal_pages + p * PAGE;
    step(w->cell, "in a signal handler", page);
    if (wrong_word(page, id, w->signal_sequence[p]) >= 0)
        wrong_page(page, id, w->signal_sequence[p], "in a signal handler", w->index);
    write_page(page, id, ++w->signal_sequence[p]);
    w->verified++, w->writes++, w->signals++;
    step(w->cell, what, (void *)at);
    w->cell->busy = busy;
    errno = before;
}

/* --- pages of all threads */

static void shared_page(struct worker *w, unsigned page) {
    char *at = shared + page * PAGE;
    uint32_t state = shared_state[page];
    if (state & 1) return;
    step(w->cell, "a shared page", at);
    if (rng(&w->state) % 4) {
        int wrong = wrong_word(at, page, state / 2);
        atomic_thread_fence(memory_order_acquire);
        if (shared_state[page] != state) return; /* somebody wrote meanwhile */
        if (wrong >= 0) wrong_page(at, page, state / 2, "a shared page", w->index);
    } else if (atomic_compare_exchange_strong(&shared_state[page], &state, state | 1)) {
        if (wrong_word(at, page, state / 2) >= 0) wrong_page(at, page, state / 2, "a shared page", w->index);
        write_page(at, page, state / 2 + 1);
        atomic_store_explicit(&shared_state[page], state + 2, memory_order_release);
        w->writes++;
    }
    w->verified++;
}

/* --- a thread's life */

static void rarely(struct worker *w, struct block *b) {
    switch (rng(&w->state) % 16) {
    case 0 ... 2: move(w, b); break;
    case 3 ... 4: replace(w, b); break;
    case 5: map_over(w, b); break;
    case 6 ... 7: advise(w, b); break;
    case 8 ... 9: protect(w, b); break;
    case 10: start_and_join(w); break;
    default: call_something(&w->desk);
    }
}

static void *work(void *context) {
    struct worker *w = self = context;
    here(w->cell);
    if (w->index % 2) { /* every other thread handles signals on a stack of their own */
        stack_t stack = {.ss_sp = map_region(64 << 10), .ss_size = 64 << 10};
        if (sigaltstack(&stack, NULL)) die_errno("sigaltstack");
    }
    sigset_t ours;
    sigemptyset(&ours), sigaddset(&ours, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
    while (now < deadline) {
        struct block *b = &w->blocks[rng(&w->state) % w->count];
        unsigned what = rng(&w->state) % 1000, page = rng(&w->state) % b->pages;
        if (what < rare) rarely(w, b);
        else if (what < 250) shared_page(w, rng(&w->state) % shared_pages);
        else if (what < 550) check(w, b, page, "at rest");
        else if (what < 850) {
            check(w, b, page, "before it is written");
            write_one(w, b, page);
        } else if (what < 985) for (unsigned p = page; p < b->pages && p < page + 16; p++) check(w, b, p, "in a row");
        else write_block(w, b);
        if (fork_every_ms && now > w->next_fork_ms) {
            fork_and_verify(w);
            w->next_fork_ms = now + fork_every_ms / 2 + rng(&w->state) % fork_every_ms;
        }
    }
    pthread_sigmask(SIG_BLOCK, &ours, NULL);
    for (unsigned i = 0; i < w->count; i++) check_block(w, &w->blocks[i], "at the end");
    for (unsigned p = 0; p < DESK_PAGES; p++) desk_check(&w->desk, p, "at the end");
    step_aside(w->cell);
    return NULL;
}

static void prepare(struct worker *w, unsigned index, size_t pages) {
    *w = (struct worker){.index = index, .count = pages / (BLOCK_PAGES / 2), .cell = cell_of(index)};
    if (w->count == 0 || w->count > MOST_BLOCKS) die("arguments: %u blocks", w->count);
    w->state = seed * 1000 + index;
    w->signal_state = ~w->state;
    here(w->cell);
    for (unsigned i = 0; i < w->count; i++) {
        struct block *b = &w->blocks[i];
        b->pages = 1 + rng(&w->state) % BLOCK_PAGES;
        b->at = map_region(b->pages * PAGE);
        write_block(w, b);
    }
    desk_open(&w->desk, w->cell, index, &w->state);
    w->signal_pages = map_region(SIGNAL_PAGES * PAGE);
    w->next_fork_ms = now + fork_every_ms / 2 + index * 100;
    step_aside(w->cell);
}

int main(int argc, char **argv) {
    if (argc > 3 && !strcmp(argv[1], "watch")) return watch(argv[2], argv[3]);
    start_watchdog();
    struct cell *mine = cell_of(CELLS - 1);
    here(mine);
    step(mine, "beginning", NULL);
    seed = argument(argc, argv, 1, 1);
    unsigned threads = argument(argc, argv, 2, 3);
    size_t pages = argument(argc, argv, 3, 48) * MIB / PAGE;
    long seconds = argument(argc, argv, 4, 5);
    fork_every_ms = argument(argc, argv, 5, 1000);
    rare = argument(argc, argv, 6, 10);
    int signals_sent = argument(argc, argv, 7, 1);
    shared_pages = pages / 4;
    if (threads == 0 || threads > MOST_THREADS || shared_pages > MOST_SHARED) die("arguments");
    now = now_ms();
    deadline = now + seconds * 1000;
    shared = map_region(shared_pages * PAGE);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigset_t ours;
    sigemptyset(&ours), sigaddset(&ours, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &ours, NULL);
    pthread_t handles[MOST_THREADS];
    for (unsigned t = 0; t < threads; t++) {
        step_aside(mine);
        prepare(&workers[t], t, (pages - shared_pages) / threads);
    }
    if (getenv("VERIFY_SPOIL")) {
        workers[0].blocks[0].at[PAGE / 2] ^= 4;
        sleep_ms(500); /* the pager shall have met it */
    }
    for (unsigned t = 0; t < threads; t++) {
        step(mine, "starting a thread", NULL);
        handles[t] = start_thread(work, &workers[t]);
    }
    uint64_t state = seed;
    for (; now < deadline; now = now_ms()) { /* this thread keeps the time and disturbs the others */
        step(mine, "keeping the time", NULL);
        sleep_ms(2);
        if (signals_sent) pthread_kill(handles[rng(&state) % threads], SIGUSR1);
    }
    step_aside(mine);
    uint64_t verified = 0, writes = 0, forks = 0, moves = 0, lives = 0, signals = 0, calls = 0, cold = 0, refused = 0;
    for (unsigned t = 0; t < threads; t++) {
        struct worker *w = &workers[t];
        join_thread(handles[t]);
        verified += w->verified + w->desk.verified, writes += w->writes, forks += w->forks, moves += w->moves;
        lives += w->threads, signals += w->signals, calls += w->desk.calls, cold += w->desk.cold, refused += w->desk.refused;
    }
    for (unsigned p = 0; p < shared_pages; p++) {
        step(mine, "a shared page at the end", shared + p * PAGE);
        if (wrong_word(shared + p * PAGE, p, shared_state[p] / 2) >= 0)
            wrong_page(shared + p * PAGE, p, shared_state[p] / 2, "a shared page at the end", 0);
    }
    step_aside(mine);
    printf("OK verified=%llu writes=%llu forks=%llu moves=%llu threads=%llu signals=%llu calls=%llu cold=%llu refused=%llu\n",
           (unsigned long long)verified, (unsigned long long)writes, (unsigned long long)forks, (unsigned long long)moves,
           (unsigned long long)lives, (unsigned long long)signals, (unsigned long long)calls, (unsigned long long)cold,
           (unsigned long long)refused);
}
