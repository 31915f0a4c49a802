/* cpu: whole-number arithmetic that needs no memory, so that only the processor's share and clock decide its speed.
 *
 * One unit is a million rounds of eight independent multiply-and-add chains: enough of them to keep the multiplier
 * busy, so that two threads on one physical core slow each other down as real computation does.
 */
#include "load.h"

#include <stdlib.h>

#define CHAINS 8
#define ROUNDS_PER_UNIT 1000000

static _Atomic uint64_t result; /* kept, so that the compiler cannot leave the work out */

static void work(uint64_t index)
{
    uint64_t chain[CHAINS];
    for (int number = 0; number < CHAINS; number++)
        chain[number] = index * CHAINS + (uint64_t)number;
    while (work_take(1) != 0) {
        for (int round = 0; round < ROUNDS_PER_UNIT; round++)
            for (int number = 0; number < CHAINS; number++)
                chain[number] = chain[number] * 6364136223846793005U + 1442695040888963407U;
        work_done(1);
    }
    for (int number = 0; number < CHAINS; number++)
        result ^= chain[number];
}

int run_cpu(int argc, char **argv)
{
    struct option threads = {.name = "threads", .kind = OPTION_COUNT, .least = 1, .most = 1024, .number = 1};
    struct option units = {.name = "work", .kind = OPTION_COUNT, .least = 1};
    struct option seconds = {.name = "seconds", .kind = OPTION_SECONDS};
    read_options("cpu", (struct option *const[]){&threads, &units, &seconds, NULL}, argc, argv);
    need_one_of(&units, &seconds);
    work_begin("units", units.given ? units.number : UINT64_MAX, &seconds);
    run_threads(threads.number, work);
    report_end("work", EXIT_SUCCESS);
}
