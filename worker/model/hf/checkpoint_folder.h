/*
 * A Hugging Face checkpoint: a folder with config.json and its weights in model.safetensors, or in
 * the several files that model.safetensors.index.json names.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_FOLDER_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_FOLDER_H

#include "proto/json_value.h"
#include "proto/result.h"
#include "worker/model/checkpoint/model_fingerprint.h"
#include "worker/plan/tensor_table.h"

struct checkpoint_folder; /* opaque */
struct opened_files;

/* `folder_fd` is used during this call only; with `opened` the files are those and no others
 * (proto/opened_files.h). The error names file, tensor and reason. */
enum result checkpoint_folder_open(int folder_fd, const struct opened_files *opened,
                                   struct checkpoint_folder **folder,
                                   struct error_text *error) RESULT_CHECKED;
void checkpoint_folder_close(struct checkpoint_folder *folder);

/* The config is the served model's (hf_config_main()). Valid until the folder is closed. */
struct json_value checkpoint_folder_config(const struct checkpoint_folder *folder);
const struct tensor_table *checkpoint_folder_tensors(const struct checkpoint_folder *folder);
struct model_fingerprint checkpoint_folder_fingerprint(const struct checkpoint_folder *folder);

#endif
