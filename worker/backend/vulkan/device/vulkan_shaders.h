/*
 * The compute shaders, as SPIR-V, embedded at build time: one entry for each module made from
 * shaders/<stem>.comp, sorted by name. `make` writes the definition (scripts/embed_shaders).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_SHADERS_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_SHADERS_H

#include <stdint.h>

struct vulkan_shader {
    const char *name;      /* <stem>, or <stem>_<suffix> for a variant */
    const uint32_t *words; /* NULL when there are none */
    uint32_t word_count;   /* 0 = this build's compiler lacks an extension that the shader needs */
};

extern const struct vulkan_shader vulkan_shaders[]; /* [vulkan_shader_count] */
extern const uint32_t vulkan_shader_count;

#endif
