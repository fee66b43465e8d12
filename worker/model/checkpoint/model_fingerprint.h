/*
 * Identifies a checkpoint without reading its weights. Equal fingerprints mean equal checkpoints as
 * far as file sizes, modification times and all bytes that are not weights (metadata, config,
 * tensor tables) can show. For a checkpoint of several files, sizes are added up, times are the
 * latest, device and inode are those of the last file, and the hash covers all files.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_MODEL_FINGERPRINT_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_MODEL_FINGERPRINT_H

#include <stdint.h>

struct model_fingerprint {
    uint64_t file_bytes;
    int64_t modified_ns; /* since the epoch */
    int64_t changed_ns;  /* the inode's change time, which programs cannot set back */
    uint64_t device;
    uint64_t inode;
    uint64_t header_hash; /* content_hash() of every byte before the tensors' data */
};

#endif
