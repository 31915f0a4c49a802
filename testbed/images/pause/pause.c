/* pause: holds a pod's namespaces. Process 1 of the pod where processes share a namespace, so it reaps what is orphaned
 * there, and it ends on SIGTERM and SIGINT, which process 1 would otherwise not notice.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

int main(void)
{
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGINT);
    sigaddset(&awaited, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &awaited, NULL) != 0)
        return 1;
    for (;;) {
        int got = 0;
        if (sigwait(&awaited, &got) != 0)
            return 1;
        if (got != SIGCHLD)
            return 0;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}
