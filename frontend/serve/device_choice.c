/*
 * Resolves --device auto before workers start: the frontend must know the device's name, because
 * workers of one device share a vault.
 *
 * Only the worker program opens drivers, so it is asked for its list of devices. Loading drivers
 * takes 0.1 s and more; a machine without a GPU must not pay for that. So /dev is searched first:
 * every Linux GPU driver has a device node there. Without one, or if the list cannot be had within
 * LIST_TIMEOUT_MS, the CPU is chosen.
 */
#include "frontend/serve/device_choice.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/worker/child_process.h"

#define LIST_BYTES      65536u /* 17 devices of at most 1.5 KB */
#define LIST_TIMEOUT_MS 10000

extern char **environ;

/* --- the list -------------------------------------------------------------------------------- */

static const char *member_text(const cJSON *device, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(device, name));
    return text ? text : "";
}

static bool is_gpu(const cJSON *device)
{
    static const char *const types[] = {"discrete", "integrated", "virtual"};
    const char *type = member_text(device, "type");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(type, types[i]) == 0)
            return true;
    }
    return false;
}

bool device_choice_pick(const char *listing, size_t bytes, struct device_name *device,
                        char name[DEVICE_CHOICE_NAME_BYTES])
{
    cJSON *root = cJSON_ParseWithLength(listing, bytes);
    bool found = false;
    const cJSON *at;
    cJSON_ArrayForEach(at, cJSON_GetObjectItemCaseSensitive(root, "devices"))
    {
        struct device_name candidate;
        if (found || !is_gpu(at) || device_name_parse(member_text(at, "device"), &candidate) != 0 ||
            candidate.kind != DEVICE_VULKAN)
            continue;
        *device = candidate;
        snprintf(name, DEVICE_CHOICE_NAME_BYTES, "%s", member_text(at, "name"));
        found = true;
    }
    cJSON_Delete(root);
    return found;
}

/* --- asking ---------------------------------------------------------------------------------- */

static bool directory_has(const char *path, const char *const prefixes[], size_t count)
{
    DIR *directory = opendir(path);
    bool found = false;
    struct dirent *entry;
    while (directory && !found && (entry = readdir(directory)) != NULL) {
        for (size_t i = 0; i < count; i++)
            found |= strncmp(entry->d_name, prefixes[i], strlen(prefixes[i])) == 0;
    }
    if (directory)
        closedir(directory);
    return found;
}

static bool machine_has_gpu_node(void)
{
    static const char *const render[] = {"renderD"};                       /* the kernel's DRM */
    static const char *const vendor[] = {"nvidia", "dxg", "mali", "kgsl"}; /* drivers without DRM */
    return directory_has("/dev/dri", render, sizeof render / sizeof render[0]) ||
           directory_has("/dev", vendor, sizeof vendor / sizeof vendor[0]);
}

static pid_t list_spawn(char *program, int output_fd)
{
    char *arguments[] = {program, (char[]){"--list-devices"}, (char[]){"json"}, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return 0;
    if (posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, output_fd, 1) != 0 ||
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) != 0 ||
        posix_spawn(&pid, program, &actions, NULL, arguments, environ) != 0)
        pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* Up to LIST_BYTES until the end of file or the deadline. */
static size_t list_read(int fd, char bytes[LIST_BYTES])
{
    int64_t deadline_ms = monotonic_clock_ms() + LIST_TIMEOUT_MS;
    size_t count = 0;
    while (count < LIST_BYTES) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        int64_t left_ms = deadline_ms - monotonic_clock_ms();
        if (left_ms <= 0 || poll(&readable, 1, (int)left_ms) <= 0)
            return 0;
        ssize_t got = read(fd, bytes + count, LIST_BYTES - count);
        if (got < 0)
            return 0;
        if (got == 0)
            break;
        count += (size_t)got;
    }
    return count;
}

static bool gpu_find(struct device_name *device, char name[DEVICE_CHOICE_NAME_BYTES])
{
    char program[PROGRAM_PATH_BYTES];
    char listing[LIST_BYTES];
    struct error_text error;
    int ends[2];
    if (child_process_find(program, &error) != RESULT_OK || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = list_spawn(program, ends[1]);
    close(ends[1]);
    size_t bytes = pid > 0 ? list_read(ends[0], listing) : 0;
    close(ends[0]);
    if (pid > 0) {
        kill(pid, SIGKILL); /* no effect if it has ended */
        waitpid(pid, NULL, 0);
    }
    return device_choice_pick(listing, bytes, device, name);
}

void device_choice_resolve(struct options *options)
{
    char name[DEVICE_CHOICE_NAME_BYTES];
    char text[DEVICE_NAME_BYTES];
    if (!options->device_auto)
        return;
    if (options->activation_bits == 16) {
        log_info("device: cpu (--device auto: --activation-bits 16 works on the CPU only)");
        return;
    }
    if (!machine_has_gpu_node() || !gpu_find(&options->devices[0].devices[0], name)) {
        log_info("device: cpu (--device auto: no usable GPU found)");
        return;
    }
    device_name_write(options->devices[0].devices[0], text);
    log_info("device: %s, %s (--device auto: the first GPU)", text, name);
}
