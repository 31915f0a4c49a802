/* Holds every packet of a TUN device for a given time and gives it back: relay DEVICE SHARED-FILE.
 *
 * The hub routes what goes from one node to another into the device, and what comes back from it on to its node. All
 * packets wait equally long, so the queue is in the order in which they leave. It is bounded; what finds it full is
 * dropped and counted, as on a real router. The shared file holds the delay, which may be changed at any time, and the
 * counts. Real-time priority, where the system grants it, keeps the delay right beside busy pods.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 16384u     /* a power of two; 0.1 s of 2 Gbit/s in full packets */
#define SLOT_BYTES 2048u /* the links' packets have at most 1500 */
#define READ_AT_ONCE 64
#define NS_PER_S 1000000000u

/* Shared with the test cluster, which writes delay_ns and reads the rest. */
struct shared {
    uint64_t delay_ns, passed, dropped, late_total_ns, late_worst_ns;
};

struct packet {
    uint64_t came_ns; /* by the monotonic clock */
    uint32_t bytes;
};

static uint8_t (*contents)[SLOT_BYTES];
static struct packet packets[SLOTS];
static uint32_t head, tail; /* they count on and on; their difference is what waits */
static volatile struct shared *shared;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "Error: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static int open_device(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0)
        fail("/dev/net/tun");
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(device, TUNSETIFF, &request) != 0)
        fail(name);
    return device;
}

static volatile struct shared *map_shared(const char *path)
{
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        fail(path);
    void *place = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (place == MAP_FAILED)
        fail(path);
    close(file);
    return place;
}

static void take_in(int device)
{
    static uint8_t no_room[SLOT_BYTES];
    for (int count = 0; count < READ_AT_ONCE; count++) {
        bool full = tail - head == SLOTS;
        ssize_t bytes = read(device, full ? no_room : contents[tail % SLOTS], SLOT_BYTES);
        if (bytes < 0) {
            if (errno == EAGAIN || errno == EINTR)
                return;
            fail("reading from the device");
        }
        if (full) {
            shared->dropped++;
            continue;
        }
        packets[tail % SLOTS] = (struct packet){.came_ns = now_ns(), .bytes = (uint32_t)bytes};
        tail++;
    }
}

/* Give back what has waited long enough; returns how long the next one still has to wait, UINT64_MAX for none. */
static uint64_t give_back(int device)
{
    while (head != tail) {
        const struct packet *packet = &packets[head % SLOTS];
        uint64_t due_ns = packet->came_ns + shared->delay_ns, now = now_ns();
        if (due_ns > now)
            return due_ns - now;
        if (write(device, contents[head % SLOTS], packet->bytes) == (ssize_t)packet->bytes) {
            shared->passed++;
            shared->late_total_ns += now - due_ns;
            if (now - due_ns > shared->late_worst_ns)
                shared->late_worst_ns = now - due_ns;
        } else {
            shared->dropped++;
        }
        head++;
    }
    return UINT64_MAX;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "Error: usage: relay DEVICE SHARED-FILE\n");
        return 2;
    }
    shared = map_shared(argv[2]);
    int device = open_device(argv[1]);
    contents = mmap(NULL, (size_t)SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (contents == MAP_FAILED)
        fail("memory for the queue");
    struct sched_param priority = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
        fprintf(stderr, "no real-time priority (%s): packets may be late while this machine is busy\n", strerror(errno));
    if (prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0)
        fail("timer slack");
    printf("relaying %s\n", argv[1]);
    fflush(stdout);
    for (;;) {
        uint64_t wait_ns = give_back(device);
        struct pollfd readable = {.fd = device, .events = POLLIN};
        struct timespec timeout = {.tv_sec = (time_t)(wait_ns / NS_PER_S), .tv_nsec = (long)(wait_ns % NS_PER_S)};
        int ready = ppoll(&readable, 1, wait_ns == UINT64_MAX ? NULL : &timeout, NULL);
        if (ready < 0 && errno != EINTR)
            fail("waiting for packets");
        if (ready > 0)
            take_in(device);
    }
}
