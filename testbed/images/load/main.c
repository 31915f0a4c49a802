/* load: puts a load of a given size on the machine and tells in one line of JSON what it did.
 *
 * Work of a fixed amount is what shows contention: the work stays, its duration grows. Work by time is for neighbours.
 */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage;
} LOADS[] = {
    {"cpu", run_cpu, "(--work UNITS | --seconds S) [--threads N]"},
    {"bandwidth", run_bandwidth, "--bytes WORKING-SET (--work-bytes TOTAL | --seconds S) [--threads N]"},
    {"page-cache", run_page_cache,
     "--file PATH --bytes SIZE (--work-bytes TOTAL | --seconds S) [--block-bytes B] [--evict]"},
    {"disk", run_disk,
     "(--write | --read) --file PATH --bytes SIZE [--work-bytes TOTAL | --seconds S] [--block-bytes B] [--direct] "
     "[--fsync]"},
    {"network", run_network,
     "(--connect ADDRESS:PORT (--bytes TOTAL | --seconds S) [--patience-seconds S] |\n"
     "           --serve ADDRESS:PORT [--connections N] [--seconds S])"},
    {"oom", run_oom, "--bytes MOST [--step BYTES] [--step-seconds S]"},
    {"hold", run_hold, "--bytes SIZE [--seconds S]"},
    {"exit", run_exit, "--code N [--seconds S]"},
};

#define LOADS_COUNT (sizeof LOADS / sizeof LOADS[0])

static int help(void)
{
    puts("Sizes are in bytes, plain or with Ki, Mi or Gi. SIGTERM ends a load at once, with its line.\n");
    for (size_t index = 0; index < LOADS_COUNT; index++)
        printf("  load %s %s\n", LOADS[index].name, LOADS[index].usage);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return help();
    for (size_t index = 0; argc > 1 && index < LOADS_COUNT; index++) {
        if (strcmp(argv[1], LOADS[index].name) != 0)
            continue;
        report_start(LOADS[index].name);
        return LOADS[index].run(argc - 2, argv + 2);
    }
    bad_argument("%s; load --help lists the loads", argc > 1 ? "no such load" : "name a load");
}
