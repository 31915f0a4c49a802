/* network: one side sends bytes, the other takes and drops them.
 *
 * Addresses are numbers (a static program cannot use the system's name services). The sender's work is done when the
 * receiver has taken the last byte: it closes its half, and waits until the receiver closes the other.
 */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES (256 << 10)
#define NANOSECONDS_BETWEEN_TRIES 20000000L

static atomic_ullong closed_connections;
static uint64_t wanted_connections;

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Read `1.2.3.4:5` or `[::1]:5`; returns the length of the address. */
static socklen_t read_address(const struct option *option, union address *address)
{
    char host[64] = "";
    unsigned long port = 65536;
    const char *colon = strrchr(option->text, ':');
    if (colon != NULL && colon[1] >= '0' && colon[1] <= '9') {
        char *end = NULL;
        port = strtoul(colon + 1, &end, 10);
        port = *end == '\0' ? port : 65536;
        snprintf(host, sizeof host, "%.*s", (int)(colon - option->text), option->text);
    }
    size_t length = strlen(host);
    memset(address, 0, sizeof *address);
    if (port < 65536 && inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons((uint16_t)port);
        return sizeof address->v4;
    }
    if (port < 65536 && length > 2 && host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        if (inet_pton(AF_INET6, host + 1, &address->v6.sin6_addr) == 1) {
            address->v6.sin6_family = AF_INET6;
            address->v6.sin6_port = htons((uint16_t)port);
            return sizeof address->v6;
        }
    }
    bad_argument("--%s %s: must be ADDRESS:PORT in numbers (10.0.0.1:5000 or [::1]:5000)", option->name, option->text);
}

static int new_socket(const union address *address)
{
    int number = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (number < 0)
        refused("cannot make a socket");
    return number;
}

/* Connect; a receiver that does not listen yet is waited for. */
static int connected(const struct option *option, const union address *address, socklen_t length, double patience_s)
{
    struct timespec pause = {0, NANOSECONDS_BETWEEN_TRIES};
    for (double waited_s = 0;; waited_s += NANOSECONDS_BETWEEN_TRIES / 1e9) {
        int peer = new_socket(address);
        if (connect(peer, &address->any, length) == 0)
            return peer;
        if (errno != ECONNREFUSED || waited_s >= patience_s)
            refused("cannot connect to %s", option->text);
        close(peer);
        nanosleep(&pause, NULL);
    }
}

static void send_all(const struct option *option, int peer)
{
    unsigned char *block = new_block(BLOCK_BYTES);
    uint64_t piece;
    while ((piece = work_take(BLOCK_BYTES)) != 0) {
        for (uint64_t at = 0; at < piece;) {
            ssize_t sent = send(peer, block + at, piece - at, MSG_NOSIGNAL);
            if (sent < 0 && errno != EINTR)
                refused("cannot send to %s", option->text);
            at += sent < 0 ? 0 : (uint64_t)sent;
        }
        work_done(piece);
    }
    ssize_t got;
    shutdown(peer, SHUT_WR);
    while ((got = recv(peer, block, BLOCK_BYTES, 0)) > 0 || (got < 0 && errno == EINTR))
        ;
    if (got < 0)
        refused("%s did not take all that was sent", option->text);
}

static void *receive_all(void *argument)
{
    int peer = (int)(intptr_t)argument;
    unsigned char *block = malloc(BLOCK_BYTES);
    if (block == NULL)
        refused("cannot allocate a block of %d bytes", BLOCK_BYTES);
    ssize_t got;
    while ((got = recv(peer, block, BLOCK_BYTES, 0)) > 0 || (got < 0 && errno == EINTR))
        work_done(got < 0 ? 0 : (uint64_t)got);
    if (got < 0)
        fprintf(stderr, "load network: a sender broke off: %s\n", strerror(errno));
    free(block);
    close(peer);
    if (atomic_fetch_add(&closed_connections, 1) + 1 == wanted_connections)
        report_end("work", EXIT_SUCCESS);
    return NULL;
}

static void serve(const struct option *option, const union address *address, socklen_t length)
{
    int listener = new_socket(address);
    int yes = 1;
    union address bound;
    socklen_t bound_length = sizeof bound;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, &address->any, length) != 0 || listen(listener, 128) != 0 ||
        getsockname(listener, &bound.any, &bound_length) != 0)
        refused("cannot listen on %s", option->text);
    unsigned port = ntohs(bound.any.sa_family == AF_INET ? bound.v4.sin_port : bound.v6.sin6_port);
    fprintf(stderr, "load network: listening on port %u\n", port);
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        pthread_t handle;
        if (peer < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (peer < 0)
            refused("cannot accept on %s", option->text);
        errno = pthread_create(&handle, &detached, receive_all, (void *)(intptr_t)peer);
        if (errno != 0)
            refused("cannot start a thread for one more sender");
    }
}

int run_network(int argc, char **argv)
{
    struct option target = {.name = "connect", .kind = OPTION_TEXT};
    struct option place = {.name = "serve", .kind = OPTION_TEXT};
    struct option bytes = {.name = "bytes", .kind = OPTION_BYTES, .least = 1};
    struct option seconds = {.name = "seconds", .kind = OPTION_SECONDS};
    struct option patience = {.name = "patience-seconds", .kind = OPTION_SECONDS, .seconds = 10};
    struct option connections = {.name = "connections", .kind = OPTION_COUNT, .least = 1};
    read_options("network",
                 (struct option *const[]){&target, &place, &bytes, &seconds, &patience, &connections, NULL}, argc,
                 argv);
    need_one_of(&target, &place);
    union address address;
    socklen_t length = read_address(target.given ? &target : &place, &address);
    if (place.given) {
        if (bytes.given || patience.given)
            bad_argument("--%s: is for --connect only", bytes.given ? bytes.name : patience.name);
        wanted_connections = connections.number;
        work_begin("bytes", UINT64_MAX, &seconds);
        serve(&place, &address, length);
    }
    if (connections.given)
        bad_argument("--connections: is for --serve only");
    need_one_of(&bytes, &seconds);
    int peer = connected(&target, &address, length, patience.seconds);
    work_begin("bytes", bytes.given ? bytes.number : UINT64_MAX, &seconds);
    send_all(&target, peer);
    report_end("work", EXIT_SUCCESS);
}
