/*
 * Starting a worker.
 *
 * The program is found beside this one (/proc/self/exe), never through PATH. Everything this
 * process has open is close-on-exec, so the worker inherits four or five descriptors by number
 * (segment, two bells and the vault's) and the standard ones: input from /dev/null, output onto
 * standard error, so that it can never write into an answer. It gets a process group of its own,
 * because a Ctrl-C in a terminal is for the frontend to turn into a drain.
 */
#include "frontend/serve/worker/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/must.h"
#include "shm/peer_watch.h"

#define ARGUMENTS_MAX 96
#define NUMBER_BYTES  24

extern char **environ;

struct arguments {
    char *list[ARGUMENTS_MAX + 1];
    int count;
    char numbers[ARGUMENTS_MAX][NUMBER_BYTES];
    int number_count;
};

static void add_text(struct arguments *arguments, const char *name, const char *value)
{
    must(arguments->count + 2 <= ARGUMENTS_MAX);
    arguments->list[arguments->count++] = (char *)(uintptr_t)name;
    arguments->list[arguments->count++] = (char *)(uintptr_t)value;
}

static void add_number(struct arguments *arguments, const char *name, uint64_t value)
{
    char *text = arguments->numbers[arguments->number_count++];
    snprintf(text, NUMBER_BYTES, "%" PRIu64, value);
    add_text(arguments, name, text);
}

/* Values of 0 are the worker's to choose: their flags are left out. */
static void add_chosen(struct arguments *arguments, const char *name, uint64_t value)
{
    if (value > 0)
        add_number(arguments, name, value);
}

/* The same of texts that nobody gave. */
static void add_given(struct arguments *arguments, const char *name, const char *value)
{
    if (value)
        add_text(arguments, name, value);
}

static void device_fill(const struct child_process_config *config, struct arguments *arguments)
{
    const struct options *options = config->options;
    char *name = arguments->numbers[arguments->number_count++];
    struct device_name device = options_device(options, config->worker_index);
    device_name_write(device, name);
    add_text(arguments, "--device", name);
    add_number(arguments, "--device-workers", config->device_workers);
    add_given(arguments, "--vulkan-tier", options->vulkan_tier);
    add_chosen(arguments, "--vulkan-validation", options->vulkan_validation);
    add_given(arguments, "--pipeline-cache", config->pipeline_cache);
    add_chosen(arguments, "--profile", options->profile);
}

static void arguments_fill(const struct child_process_config *config, struct arguments *arguments)
{
    const struct options *options = config->options;
    add_number(arguments, "--segment-fd", (uint64_t)config->link.segment);
    add_number(arguments, "--submit-bell-fd", (uint64_t)config->link.submit_bell);
    add_number(arguments, "--event-bell-fd", (uint64_t)config->link.event_bell);
    if (config->weights.vault >= 0)
        add_number(arguments, "--weights-fd", (uint64_t)config->weights.vault);
    if (config->weights.send >= 0)
        add_number(arguments, "--weights-send-fd", (uint64_t)config->weights.send);
    add_number(arguments, "--parent-pid", (uint64_t)getpid());
    add_number(arguments, "--worker-index", config->worker_index);
    device_fill(config, arguments);
    add_number(arguments, "--worker-count", options->workers);
    add_text(arguments, "--model", options->model);
    add_text(arguments, "--log-level", options->log_level_name);
    add_text(arguments, "--log-format", options->log_format_name);
    add_chosen(arguments, "--threads", options->threads);
    add_number(arguments, "--activation-bits", options->activation_bits);
    add_number(arguments, "--max-sequences", options->max_sequences);
    add_chosen(arguments, "--step-tokens", options->step_tokens);
    add_chosen(arguments, "--mixed-prefill-tokens", options->mixed_prefill_tokens);
    add_chosen(arguments, "--step-depth", options->step_depth);
    add_chosen(arguments, "--context", options->context_tokens);
    add_text(arguments, "--kv-cache-type", options->kv_cache_type);
    add_given(arguments, "--kv-bits", options->kv_bits);
    add_given(arguments, "--kv-quant-scheme", options->kv_quant_scheme);
    add_given(arguments, "--kv-key-bits", options->kv_key_bits);
    add_given(arguments, "--kv-value-bits", options->kv_value_bits);
    add_chosen(arguments, "--kv-group-size", options->kv_group_size);
    add_chosen(arguments, "--quantized-kv-start", options->quantized_kv_start);
    if (options->kv_cache_bytes & OPTIONS_SHARE)
        add_number(arguments, "--kv-cache-share", options->kv_cache_bytes & ~OPTIONS_SHARE);
    else
        add_chosen(arguments, "--kv-cache-bytes", options->kv_cache_bytes);
    add_number(arguments, "--vision-cache-size", options->vision_cache_size);
    add_chosen(arguments, "--vision-cache-bytes", options->vision_cache_bytes);
    add_number(arguments, "--prefix-cache", options->prefix_cache);
    add_given(arguments, "--fault", options->worker_fault);
}

enum result child_process_find(char path[CHILD_PROCESS_PATH_BYTES], struct error_text *error)
{
    static const char name[] = "/shoal-worker";
    ssize_t length = readlink("/proc/self/exe", path, CHILD_PROCESS_PATH_BYTES - sizeof name);
    if (length <= 0)
        return error_set(error, RESULT_IO, "cannot find this program's own file: %s",
                         strerror(errno));
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    must(slash != NULL);
    memcpy(slash, name, sizeof name);
    return RESULT_OK;
}

/* What the child does between fork and exec. A descriptor duplicated onto itself loses
 * close-on-exec. */
static int actions_fill(posix_spawn_file_actions_t *actions,
                        const struct child_process_config *config)
{
    int status = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (status == 0)
        status = posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
    const int kept[] = {config->link.segment, config->link.submit_bell, config->link.event_bell,
                        config->weights.vault, config->weights.send};
    for (size_t i = 0; status == 0 && i < sizeof kept / sizeof kept[0]; i++)
        if (kept[i] >= 0)
            status = posix_spawn_file_actions_adddup2(actions, kept[i], kept[i]);
    return status;
}

static int attributes_fill(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    int status = posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (status == 0)
        status = posix_spawnattr_setpgroup(attributes, 0);
    if (status == 0)
        status = posix_spawnattr_setsigmask(attributes, &none);
    if (status == 0)
        status = posix_spawnattr_setsigdefault(attributes, &all);
    return status;
}

enum result child_process_spawn(const struct child_process_config *config,
                                struct child_process *process, struct error_text *error)
{
    char path[CHILD_PROCESS_PATH_BYTES];
    enum result result = child_process_find(path, error);
    if (result != RESULT_OK)
        return result;
    struct arguments arguments = {.list = {path}, .count = 1};
    arguments_fill(config, &arguments);

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    must(posix_spawn_file_actions_init(&actions) == 0);
    must(posix_spawnattr_init(&attributes) == 0);
    int status = actions_fill(&actions, config);
    if (status == 0)
        status = attributes_fill(&attributes);
    if (status == 0)
        status = posix_spawn(&process->pid, path, &actions, &attributes, arguments.list, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (status != 0) {
        process->pid = 0;
        return error_set(error, RESULT_IO, "cannot start %.150s: %s", path, strerror(status));
    }
    result = peer_watch_open(process->pid, &process->pid_fd, error);
    if (result != RESULT_OK) {
        struct error_text how;
        process->pid_fd = -1;
        child_process_kill(process);
        (void)child_process_reap(process, &how);
    }
    return result;
}

void child_process_kill(const struct child_process *process)
{
    if (process->pid > 0)
        kill(process->pid, SIGKILL); /* not reaped yet, so the number is still its own */
}

bool child_process_reap(struct child_process *process, struct error_text *how)
{
    int status = 0;
    pid_t reaped;
    do
        reaped = waitpid(process->pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
    must(reaped == process->pid);
    if (process->pid_fd >= 0)
        close(process->pid_fd);
    *process = (struct child_process){.pid_fd = -1};
    if (WIFSIGNALED(status))
        snprintf(how->text, sizeof how->text, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(how->text, sizeof how->text, "exit status %d", WEXITSTATUS(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
