/* The amount of work, given out in pieces to any number of threads, and memory to work on. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

static _Atomic uint64_t taken = 0;
static _Atomic uint64_t done = 0;
static atomic_bool begun = false;
static uint64_t to_do = 0;
static const char *unit_name = "bytes";

void work_begin(const char *unit, uint64_t total, const struct option *seconds)
{
    unit_name = unit;
    to_do = total;
    report_work_begins();
    begun = true;
    if (seconds != NULL && seconds->given)
        report_end_after(seconds->seconds);
}

uint64_t work_take(uint64_t piece)
{
    uint64_t before = atomic_fetch_add(&taken, piece);
    if (before >= to_do)
        return 0;
    uint64_t left = to_do - before;
    return piece < left ? piece : left;
}

void work_done(uint64_t amount) { atomic_fetch_add(&done, amount); }

struct work_state work_now(void) { return (struct work_state){begun, unit_name, done}; }

struct thread {
    pthread_t handle;
    uint64_t index;
    void (*body)(uint64_t index);
};

static void *run_thread(void *argument)
{
    struct thread *thread = argument;
    thread->body(thread->index);
    return NULL;
}

void run_threads(uint64_t count, void (*body)(uint64_t index))
{
    struct thread *threads = calloc(count, sizeof *threads);
    if (threads == NULL)
        refused("cannot start %llu threads", (unsigned long long)count);
    for (uint64_t index = 0; index < count; index++) {
        threads[index].index = index;
        threads[index].body = body;
        errno = pthread_create(&threads[index].handle, NULL, run_thread, &threads[index]);
        if (errno != 0)
            refused("cannot start thread %llu of %llu", (unsigned long long)index + 1, (unsigned long long)count);
    }
    for (uint64_t index = 0; index < count; index++)
        pthread_join(threads[index].handle, NULL);
    free(threads);
}

void *new_memory(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        refused("cannot map %llu bytes", (unsigned long long)bytes);
    return memory;
}

void touch_pages(unsigned char *memory, uint64_t from, uint64_t to)
{
    for (uint64_t offset = from; offset < to; offset += PAGE_BYTES)
        *(volatile unsigned char *)(memory + offset) = 1;
}
