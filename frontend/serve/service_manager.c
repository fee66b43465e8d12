/*
 * Sends datagrams of NAME=value lines to the socket in NOTIFY_SOCKET, and takes the descriptors
 * from 3 on that LISTEN_FDS counts.
 *
 * The watchdog is fed from the event loop only, so that it fires when the loop stops turning. Hung
 * workers are handled by worker_supervisor.h, not by systemd.
 *
 * Sending never waits: a message that the manager has no room for is dropped, and the next follows
 * within a second. This is the only file that reads the environment; the protocol has no other way.
 */
#include "frontend/serve/service_manager.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "frontend/base/monotonic_clock.h"
#include "proto/log.h"
#include "proto/must.h"

#define FIRST_PASSED_FD 3
#define STATUS_EVERY_MS 1000
#define START_EXTEND_US 30000000 /* extra start time, granted at each sign of progress */
#define MESSAGE_BYTES   512u
#define SUCCESSOR_NAME  "SHOAL_SUCCESSOR_SOCKETS" /* number of sockets behind the channel */
#define VARIABLE_BYTES  160u
#define VARIABLES       3u

struct service_manager {
    struct service_manager_config config;
    int fd; /* -1: no service manager */
    struct sockaddr_un address;
    socklen_t address_bytes;
    struct event *status_timer;
    struct event *watchdog_timer; /* NULL: no watchdog */
    char status[SERVICE_STATUS_BYTES];
    size_t passed_fds;
    int first_passed_fd;
    int channel;          /* to the server before this one, or -1 */
    uint64_t watchdog_us; /* 0: none */
    char variables[VARIABLES][VARIABLE_BYTES];
    bool ready;
};

/* Removes the variable and returns its value; NULL if unset or empty. The caller frees. */
static char *environment_take(const char *name)
{
    const char *value = getenv(name);
    char *copy = value && value[0] ? must_strdup(value) : NULL;
    unsetenv(name);
    return copy;
}

static uint64_t environment_take_number(const char *name)
{
    char *text = environment_take(name);
    char *end = NULL;
    errno = 0;
    unsigned long long value = text ? strtoull(text, &end, 10) : 0;
    bool good = text && text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
    free(text);
    return good ? value : 0;
}

static void notify(struct service_manager *manager, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void notify(struct service_manager *manager, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list args;
    if (manager->fd < 0)
        return;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    must(length > 0 && (size_t)length < sizeof message);
    if (sendto(manager->fd, message, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT,
               (const struct sockaddr *)&manager->address, manager->address_bytes) < 0)
        log_debug("the service manager did not take a message: %s", strerror(errno));
}

static void timer_set(struct event *timer, uint64_t after_us)
{
    struct timeval after = {.tv_sec = (time_t)(after_us / 1000000),
                            .tv_usec = (suseconds_t)(after_us % 1000000)};
    event_add(timer, &after);
}

static void on_watchdog(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct service_manager *manager = context;
    notify(manager, "WATCHDOG=1");
}

static void on_status(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct service_manager *manager = context;
    char status[SERVICE_STATUS_BYTES] = "";
    manager->config.write_status(manager->config.context, status);
    timer_set(manager->status_timer, STATUS_EVERY_MS * 1000);
    if (strcmp(status, manager->status) == 0)
        return;
    memcpy(manager->status, status, sizeof manager->status);
    status[strcspn(status, "\n")] = '\0';
    if (manager->ready)
        notify(manager, "STATUS=%s", status);
    else
        notify(manager, "STATUS=%s\nEXTEND_TIMEOUT_USEC=%d", status, START_EXTEND_US);
}

/* Address of the socket: a path, or with '@' a name in the abstract namespace. */
static bool address_parse(struct service_manager *manager, const char *name)
{
    size_t bytes = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || bytes >= sizeof manager->address.sun_path)
        return false;
    manager->address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(manager->address.sun_path, name, bytes);
    if (name[0] == '@')
        manager->address.sun_path[0] = '\0';
    manager->address_bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + (name[0] == '/'));
    return true;
}

static void notifying_start(struct service_manager *manager, uint64_t watchdog_us)
{
    char *name = environment_take("NOTIFY_SOCKET");
    if (name && !address_parse(manager, name))
        log_warn("NOTIFY_SOCKET is no address that is understood here");
    else if (name)
        manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    free(name);
    if (manager->fd < 0)
        return;
    manager->status_timer = event_new(manager->config.base, -1, 0, on_status, manager);
    must(manager->status_timer != NULL);
    timer_set(manager->status_timer, 0);
    if (watchdog_us == 0)
        return;
    manager->watchdog_timer = event_new(manager->config.base, -1, EV_PERSIST, on_watchdog, manager);
    must(manager->watchdog_timer != NULL);
    timer_set(manager->watchdog_timer, watchdog_us / 3 + 1);
}

/* The variable alone proves nothing: descriptor 3 must be a connected socket. */
static void predecessor_find(struct service_manager *manager, uint64_t sockets)
{
    struct sockaddr_un peer;
    socklen_t bytes = sizeof peer;
    if (sockets == 0 || sockets > LIMIT_LISTEN_SOCKETS ||
        getpeername(FIRST_PASSED_FD, (struct sockaddr *)&peer, &bytes) != 0 ||
        fcntl(FIRST_PASSED_FD, F_SETFD, FD_CLOEXEC) != 0)
        return;
    manager->channel = FIRST_PASSED_FD;
    manager->first_passed_fd = FIRST_PASSED_FD + 1;
    manager->passed_fds = (size_t)sockets;
}

struct service_manager *service_manager_create(const struct service_manager_config *config)
{
    struct service_manager *manager = must_alloc(1, sizeof *manager);
    manager->config = *config;
    manager->fd = -1;
    manager->channel = -1;
    manager->first_passed_fd = FIRST_PASSED_FD;
    uint64_t listen_pid = environment_take_number("LISTEN_PID");
    uint64_t listen_fds = environment_take_number("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (listen_pid == (uint64_t)getpid())
        manager->passed_fds = (size_t)listen_fds;
    predecessor_find(manager, environment_take_number(SUCCESSOR_NAME));
    uint64_t watchdog_us = environment_take_number("WATCHDOG_USEC");
    uint64_t watchdog_pid = environment_take_number("WATCHDOG_PID");
    if (watchdog_pid != 0 && watchdog_pid != (uint64_t)getpid())
        watchdog_us = 0;
    manager->watchdog_us = watchdog_us;
    notifying_start(manager, watchdog_us);
    return manager;
}

void service_manager_destroy(struct service_manager *manager)
{
    if (!manager)
        return;
    if (manager->status_timer)
        event_free(manager->status_timer);
    if (manager->watchdog_timer)
        event_free(manager->watchdog_timer);
    if (manager->fd >= 0)
        close(manager->fd);
    free(manager);
}

/* One more than can be listened on, so that the listener notices too many. */
size_t service_manager_take_sockets(struct service_manager *manager,
                                    int fds[LIMIT_LISTEN_SOCKETS + 1])
{
    size_t count = manager->passed_fds;
    if (count > LIMIT_LISTEN_SOCKETS + 1)
        count = LIMIT_LISTEN_SOCKETS + 1;
    for (size_t i = 0; i < count; i++)
        fds[i] = manager->first_passed_fd + (int)i;
    manager->passed_fds = 0;
    return count;
}

void service_manager_ready(struct service_manager *manager)
{
    if (manager->ready)
        return;
    manager->ready = true;
    notify(manager, "READY=1");
}

void service_manager_reloading(struct service_manager *manager)
{
    if (manager->ready)
        notify(manager, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, monotonic_clock_us());
}

void service_manager_reloaded(struct service_manager *manager)
{
    if (manager->ready)
        notify(manager, "READY=1");
}

void service_manager_stopping(struct service_manager *manager)
{
    notify(manager, "STOPPING=1");
}

int service_manager_take_channel(struct service_manager *manager)
{
    int channel = manager->channel;
    manager->channel = -1;
    return channel;
}

char **service_manager_successor_environment(struct service_manager *manager, size_t sockets)
{
    const struct sockaddr_un *address = &manager->address;
    size_t count = 0, at = 0;
    while (environ[count])
        count++;
    char **environment = must_alloc(count + VARIABLES + 1, sizeof environment[0]);
    memcpy(environment, environ, count * sizeof environment[0]);
    snprintf(manager->variables[at++], VARIABLE_BYTES, SUCCESSOR_NAME "=%zu", sockets);
    if (manager->fd >= 0)
        snprintf(manager->variables[at++], VARIABLE_BYTES, "NOTIFY_SOCKET=%s%.*s",
                 address->sun_path[0] ? "" : "@", (int)sizeof address->sun_path - 1,
                 address->sun_path[0] ? address->sun_path : address->sun_path + 1);
    if (manager->watchdog_us > 0)
        snprintf(manager->variables[at++], VARIABLE_BYTES, "WATCHDOG_USEC=%" PRIu64,
                 manager->watchdog_us);
    for (size_t i = 0; i < at; i++)
        environment[count + i] = manager->variables[i];
    return environment;
}

void service_manager_succeeded(struct service_manager *manager, pid_t pid)
{
    notify(manager, "MAINPID=%d", (int)pid);
}
