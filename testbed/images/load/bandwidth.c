/* bandwidth: the triad of STREAM (McCalpin 1995), a[i] = b[i] + s * c[i], on a working set of a given size.
 *
 * Bytes are counted as STREAM counts them: 24 per element (two reads, one write). A write that misses the caches reads
 * its line first, which is not counted, so the memory bus may carry a third more. Whether the working set exceeds the
 * largest cache that the system tells of is in the line at the end; on a virtual machine that cache is shared with
 * others, and nothing here can tell how much of it is ours.
 */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>

#define BYTES_PER_ELEMENT (3 * sizeof(double))
#define ELEMENTS_PER_PIECE 65536
#define LEAST_BYTES_PER_THREAD 65536

static double *memory;
static uint64_t elements_per_thread;

static void work(uint64_t index)
{
    double *a = memory + index * 3 * elements_per_thread;
    double *b = a + elements_per_thread;
    double *c = b + elements_per_thread;
    uint64_t at = 0, piece;
    while ((piece = work_take(ELEMENTS_PER_PIECE)) != 0) {
        uint64_t left = piece;
        while (left != 0) {
            uint64_t run = elements_per_thread - at < left ? elements_per_thread - at : left;
            for (uint64_t i = at; i < at + run; i++)
                a[i] = b[i] + 3.0 * c[i];
            __asm__ volatile("" : : "r"(a) : "memory"); /* what is written counts as used */
            left -= run;
            at = at + run == elements_per_thread ? 0 : at + run;
        }
        work_done(piece * BYTES_PER_ELEMENT);
    }
}

/* The largest cache of the first processor, 0 where the system does not tell. */
static uint64_t largest_cache_bytes(void)
{
    uint64_t largest = 0;
    for (int index = 0; index < 8; index++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        FILE *file = fopen(path, "r");
        unsigned long long size_kib = 0;
        if (file == NULL)
            continue;
        if (fscanf(file, "%lluK", &size_kib) == 1 && size_kib * 1024 > largest)
            largest = size_kib * 1024;
        fclose(file);
    }
    return largest;
}

static void make_ready(uint64_t index)
{
    double *own = memory + index * 3 * elements_per_thread;
    for (uint64_t i = 0; i < 3 * elements_per_thread; i++)
        own[i] = 1.0;
}

int run_bandwidth(int argc, char **argv)
{
    struct option bytes = {.name = "bytes", .kind = OPTION_BYTES, .required = true};
    struct option threads = {.name = "threads", .kind = OPTION_COUNT, .least = 1, .most = 1024, .number = 1};
    struct option work_bytes = {.name = "work-bytes", .kind = OPTION_BYTES, .least = 1};
    struct option seconds = {.name = "seconds", .kind = OPTION_SECONDS};
    read_options("bandwidth", (struct option *const[]){&bytes, &threads, &work_bytes, &seconds, NULL}, argc, argv);
    need_one_of(&work_bytes, &seconds);
    if (bytes.number < threads.number * LEAST_BYTES_PER_THREAD)
        bad_argument("--bytes %llu: must be at least %d for each of %llu threads", (unsigned long long)bytes.number,
                     LEAST_BYTES_PER_THREAD, (unsigned long long)threads.number);
    elements_per_thread = bytes.number / BYTES_PER_ELEMENT / threads.number;
    memory = new_memory(elements_per_thread * threads.number * BYTES_PER_ELEMENT);
    run_threads(threads.number, make_ready);
    uint64_t cache_bytes = largest_cache_bytes();
    if (cache_bytes != 0)
        report_fact("\"largest_cache_bytes\":%llu,\"exceeds_largest_cache\":%s", (unsigned long long)cache_bytes,
                    bytes.number > cache_bytes ? "true" : "false");
    uint64_t elements = work_bytes.number / BYTES_PER_ELEMENT + (work_bytes.number % BYTES_PER_ELEMENT != 0);
    uint64_t total = work_bytes.given ? elements : UINT64_MAX;
    work_begin("bytes", total, &seconds);
    run_threads(threads.number, work);
    report_end("work", EXIT_SUCCESS);
}
