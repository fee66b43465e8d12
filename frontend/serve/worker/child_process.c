/*
 * The command line of a worker, and its descriptors: it inherits three to fourteen by number
 * (segment, two bells, those of the vaults, files of the prefix cache, memory of adapters, a standby's
 * eventfd, its lifeline), and those of the checkpoint's files, which it closes once they are mapped.
 */
#include "frontend/serve/worker/child_process.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/must.h"
#include "proto/opened_files.h"
#include "proto/speculation.h"
#include "shm/peer_watch.h"

#define ARGUMENTS_MAX 128
#define NUMBER_BYTES  24

extern char **environ;

struct arguments {
    char *list[ARGUMENTS_MAX + 1];
    int count;
    char numbers[ARGUMENTS_MAX][NUMBER_BYTES];
    int number_count;
    char device[DEVICE_SET_BYTES];
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

/* Leaves out a flag whose value is 0: the worker chooses. */
static void add_chosen(struct arguments *arguments, const char *name, uint64_t value)
{
    if (value > 0)
        add_number(arguments, name, value);
}

/* The same for a text that is not set. */
static void add_given(struct arguments *arguments, const char *name, const char *value)
{
    if (value)
        add_text(arguments, name, value);
}

static void device_fill(const struct child_process_config *config, struct arguments *arguments)
{
    const struct options *options = config->options;
    device_set_write(options_device(options, config->worker_index), arguments->device);
    add_text(arguments, "--device", arguments->device);
    add_number(arguments, "--device-workers", config->device_workers);
    add_given(arguments, "--cpu-tier", options->cpu_tier);
    add_given(arguments, "--vulkan-tier", options->vulkan_tier);
    add_chosen(arguments, "--vulkan-validation", options->vulkan_validation);
    add_given(arguments, "--pipeline-cache", config->pipeline_cache);
    add_chosen(arguments, "--profile", options->profile);
    add_chosen(arguments, "--batch-invariant", options->batch_invariant);
}

/* Descriptors that not every worker gets. */
static void inherited_fill(const struct child_process_config *config, struct arguments *arguments)
{
    if (config->weights.vault >= 0)
        add_number(arguments, "--weights-fd", (uint64_t)config->weights.vault);
    if (config->weights.send >= 0)
        add_number(arguments, "--weights-send-fd", (uint64_t)config->weights.send);
    if (config->kv_memory >= 0)
        add_number(arguments, "--kv-memory-fd", (uint64_t)config->kv_memory);
    if (config->kv_device.send >= 0) {
        add_number(arguments, "--kv-vault-fd", (uint64_t)config->kv_device.vault);
        add_number(arguments, "--kv-send-fd", (uint64_t)config->kv_device.send);
    }
    if (config->adapters >= 0)
        add_number(arguments, "--adapter-fd", (uint64_t)config->adapters);
    if (config->prefix_load >= 0)
        add_number(arguments, "--prefix-load-fd", (uint64_t)config->prefix_load);
    if (config->prefix_save >= 0) {
        add_number(arguments, "--prefix-save-fd", (uint64_t)config->prefix_save);
        add_number(arguments, "--prefix-save-bytes", config->options->prefix_cache_bytes);
    }
    if (config->standby >= 0)
        add_number(arguments, "--standby-fd", (uint64_t)config->standby);
    if (config->lifeline.life >= 0) {
        add_number(arguments, "--life-fd", (uint64_t)config->lifeline.life);
        add_number(arguments, "--device-work-fd", (uint64_t)config->lifeline.work);
    }
}

static void arguments_fill(const struct child_process_config *config, struct arguments *arguments)
{
    const struct options *options = config->options;
    add_number(arguments, "--segment-fd", (uint64_t)config->link.segment);
    add_number(arguments, "--submit-bell-fd", (uint64_t)config->link.submit_bell);
    add_number(arguments, "--event-bell-fd", (uint64_t)config->link.event_bell);
    inherited_fill(config, arguments);
    add_number(arguments, "--parent-pid", (uint64_t)getpid());
    add_number(arguments, "--worker-index", config->worker_index);
    device_fill(config, arguments);
    add_number(arguments, "--worker-count", options->workers);
    add_text(arguments, "--model", options->model);
    add_given(arguments, "--mmproj", options->mmproj);
    add_chosen(arguments, "--mmproj-optional", options->mmproj_found);
    add_given(arguments, "--checkpoint-files", config->checkpoint_files);
    if (config->checkpoint_opened)
        add_text(arguments, "--checkpoint-fds", config->checkpoint_opened->text);
    add_text(arguments, "--log-level", options->log_level_name);
    add_text(arguments, "--log-format", options->log_format_name);
    add_chosen(arguments, "--threads", options->threads);
    add_number(arguments, "--activation-bits", options->activation_bits);
    add_number(arguments, "--max-sequences", options->max_sequences);
    add_number(arguments, "--sequences-limit", options_sequences_limit(options));
    add_chosen(arguments, "--step-tokens", options->step_tokens);
    add_chosen(arguments, "--mixed-prefill-tokens", options->mixed_prefill_tokens);
    add_number(arguments, "--itl-target-ms", options->itl_target_ms);
    add_chosen(arguments, "--step-depth", options->step_depth);
    enum speculation speculation = SPECULATION_OFF;
    must(speculation_parse(options->speculation, &speculation) == 0);
    add_chosen(arguments, "--speculation", (uint64_t)speculation);
    add_given(arguments, "--draft-model", options->draft_model);
    add_text(arguments, "--pooling", pooling_name(options->pooling));
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
    add_text(arguments, "--sandbox", options->worker_sandbox);
    add_chosen(arguments, "--allow-debug", options->allow_debug);
    add_given(arguments, "--fault", options->worker_fault);
}

enum result child_process_find(char path[PROGRAM_PATH_BYTES], struct error_text *error)
{
    return program_path("shoal-worker", path, error);
}

enum result child_process_spawn(const struct child_process_config *config,
                                struct child_process *process, struct error_text *error)
{
    char path[PROGRAM_PATH_BYTES];
    enum result result = child_process_find(path, error);
    if (result != RESULT_OK)
        return result;
    struct arguments arguments = {.list = {path}, .count = 1};
    arguments_fill(config, &arguments);

    const int kept[] = {config->link.segment,    config->link.submit_bell, config->link.event_bell,
                        config->weights.vault,   config->weights.send,     config->kv_memory,
                        config->kv_device.vault, config->kv_device.send,   config->prefix_load,
                        config->prefix_save,     config->adapters,         config->standby,
                        config->lifeline.life,   config->lifeline.work};
    struct program_descriptor descriptors[sizeof kept / sizeof kept[0] + LIMIT_OPENED_FILES];
    size_t count = 0;
    for (; count < sizeof kept / sizeof kept[0]; count++)
        descriptors[count] = (struct program_descriptor){kept[count], kept[count]};
    const struct opened_files *opened = config->checkpoint_opened;
    for (size_t i = 0; opened && i < opened->count; i++)
        descriptors[count++] = (struct program_descriptor){opened->list[i].fd, opened->list[i].fd};
    const struct program_start start = {.path = path,
                                        .arguments = arguments.list,
                                        .environment = environ,
                                        .descriptors = descriptors,
                                        .descriptor_count = count};
    result = program_spawn(&start, &process->pid, error);
    if (result != RESULT_OK) {
        process->pid = 0;
        return result;
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
        kill(process->pid, SIGKILL); /* not reaped yet, so its pid is not reused */
}

int child_process_reap(struct child_process *process, struct error_text *how)
{
    int status = program_reap(process->pid, how);
    if (process->pid_fd >= 0)
        close(process->pid_fd);
    *process = (struct child_process){.pid_fd = -1};
    return status;
}
