/*
 * A queued socket message that carries device memory from one worker to the next.
 *
 * A process that knows nothing of devices can hold descriptors of device memory, but they cannot be
 * put into a file. The queue of a Unix socket keeps them like an open descriptor does: as long as
 * one of the two ends is open in some process, the message and the memory stay. MSG_PEEK makes
 * duplicates for the reader. So the frontend holds two sockets and never reads the message.
 *
 * The contents are not trusted: sizes and counts are bounded here, vulkan_manifest.h checks the
 * rest. A process with the descriptors can spoil the vault; then it is emptied and filled again.
 */
#include "worker/backend/vulkan/weights/vulkan_vault.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/must.h"

#define MESSAGES_MAX 64u /* discarded at once; a valid vault never has more than one */

/* Room for the control message with all descriptors, aligned for the kernel. */
union control {
    char bytes[CMSG_SPACE(VULKAN_VAULT_FDS_MAX * sizeof(int))];
    struct cmsghdr header;
};

bool vulkan_vault_is_filled(const struct vulkan_vault *vault)
{
    char byte;
    return recv(vault->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static ssize_t receive(int fd, int flags, struct msghdr *header)
{
    ssize_t count;
    do
        count = recvmsg(fd, header, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (count < 0 && errno == EINTR);
    return count;
}

static void take_fds(struct msghdr *header, struct vulkan_vault_message *message)
{
    message->fd_count = 0;
    for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control;
         control = CMSG_NXTHDR(header, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        must(count <= VULKAN_VAULT_FDS_MAX - message->fd_count); /* the control buffer has room for
                                                                  * no more */
        memcpy(message->fds + message->fd_count, CMSG_DATA(control), count * sizeof(int));
        message->fd_count += (uint32_t)count;
    }
}

enum result vulkan_vault_peek(const struct vulkan_vault *vault,
                              struct vulkan_vault_message *message, struct error_text *error)
{
    union control control;
    struct iovec bytes = {message->bytes, sizeof message->bytes};
    struct msghdr header = {.msg_iov = &bytes,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    memset(&control, 0, sizeof control);
    ssize_t count = receive(vault->fd, MSG_PEEK, &header);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return RESULT_EMPTY;
    if (count < 0)
        return error_set(error, RESULT_INVALID, "it cannot be read: %s", strerror(errno));
    message->byte_count = (size_t)count;
    take_fds(&header, message);
    enum result result = RESULT_OK;
    if (header.msg_flags & MSG_TRUNC)
        result = error_set(error, RESULT_CORRUPT, "its message is longer than any manifest");
    else if (header.msg_flags & MSG_CTRUNC)
        result = error_set(error, RESULT_IO, "no room for its descriptors in this process");
    if (result != RESULT_OK)
        vulkan_vault_message_close(message);
    return result;
}

void vulkan_vault_message_close(struct vulkan_vault_message *message)
{
    for (uint32_t i = 0; i < message->fd_count; i++)
        close(message->fds[i]);
    message->fd_count = 0;
}

static int lock_set(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &lock);
}

enum result vulkan_vault_lock(const struct vulkan_vault *vault, struct error_text *error)
{
    if (lock_set(vault->fd, F_WRLCK) == 0)
        return RESULT_OK;
    return errno == EAGAIN || errno == EACCES
               ? RESULT_FULL
               : error_set(error, RESULT_IO, "it cannot be locked: %s", strerror(errno));
}

void vulkan_vault_unlock(const struct vulkan_vault *vault)
{
    (void)lock_set(vault->fd, F_UNLCK);
}

enum result vulkan_vault_empty(const struct vulkan_vault *vault, struct error_text *error)
{
    for (uint32_t i = 0; i < MESSAGES_MAX; i++) {
        /* Without room for control data the kernel closes the descriptors. */
        char byte;
        struct iovec bytes = {&byte, sizeof byte};
        struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1};
        if (receive(vault->fd, 0, &header) < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK
                       ? RESULT_OK
                       : error_set(error, RESULT_INVALID, "it cannot be read: %s", strerror(errno));
    }
    return error_set(error, RESULT_CORRUPT, "it does not become empty");
}

enum result vulkan_vault_leave(const struct vulkan_vault *vault,
                               const struct vulkan_vault_message *message, struct error_text *error)
{
    if (message->fd_count > VULKAN_VAULT_FDS_MAX)
        return error_set(error, RESULT_TOO_LARGE, "%u allocations; at most %u can be kept",
                         message->fd_count, VULKAN_VAULT_FDS_MAX);
    must(message->fd_count > 0 && message->byte_count > 0);
    must(message->byte_count <= VULKAN_VAULT_BYTES_MAX);
    union control control;
    struct iovec bytes = {(void *)(uintptr_t)message->bytes, message->byte_count};
    struct msghdr header = {.msg_iov = &bytes,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = CMSG_SPACE(message->fd_count * sizeof(int))};
    memset(&control, 0, sizeof control);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    *rights = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS,
                               .cmsg_len = CMSG_LEN(message->fd_count * sizeof(int))};
    memcpy(CMSG_DATA(rights), message->fds, message->fd_count * sizeof(int));
    ssize_t count;
    do
        count = sendmsg(vault->send_fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (count < 0 && errno == EINTR);
    return count == (ssize_t)message->byte_count
               ? RESULT_OK
               : error_set(error, RESULT_IO, "it takes no message: %s", strerror(errno));
}
