#include "worker/schedule/standby_wait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum result standby_wait(int standby_fd, int parent_fd, struct error_text *error)
{
    struct pollfd ends[] = {{.fd = standby_fd, .events = POLLIN},
                            {.fd = parent_fd, .events = POLLIN}};
    while (poll(ends, sizeof ends / sizeof ends[0], -1) < 0) {
        if (errno != EINTR)
            return error_set(error, RESULT_IO, "standby: %s", strerror(errno));
    }
    if (ends[1].revents)
        return error_set(error, RESULT_PEER_GONE, "the frontend has ended");
    if (!(ends[0].revents & POLLIN))
        return error_set(error, RESULT_IO, "standby: the descriptor is none that rings");
    return RESULT_OK;
}
