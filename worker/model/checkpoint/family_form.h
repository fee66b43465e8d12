/*
 * What defines a model family: how each checkpoint format states its config, and the functions that
 * list its ops. Families (family/) define the rows and their forms; forms that several family files
 * use are in gguf/ and hf/.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_FAMILY_FORM_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_FAMILY_FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"
#include "worker/plan/plan.h"
#include "worker/plan/tensor_naming.h"
#include "worker/plan/tensor_table.h"
#include "worker/plan/vision_config.h"

struct plan_builder;
struct hf_vision_form; /* checkpoint_hf_vision.h */

/* How GGUF files state a family. */
struct gguf_form {
    const char *epsilon_key; /* key of the norms' epsilon; NULL: attention.layer_norm_rms_epsilon */
    /* Keys that change the computation and that read_config reads; all other such keys must have
     * their neutral value. Ends with NULL; NULL: none. */
    const char *const *own_keys;
    /* Fills the fields that only this family has (ropes, windows, scales). The sizes that all
     * families have are already filled. */
    void (*read_config)(struct checkpoint_keys *keys, struct model_config *config);
};

/* Defaults of the Hugging Face configuration class, for keys that a config.json omits. */
struct hf_defaults {
    uint32_t layers;
    uint32_t hidden;
    uint32_t feed_forward;
    uint32_t heads;
    uint32_t kv_heads; /* 0: equal to heads */
    uint32_t head_dim; /* 0: hidden / heads */
    uint32_t vocab_tokens;
    float norm_epsilon;
    bool tied_embeddings;
};

/* How Hugging Face checkpoints state a family. */
struct hf_form {
    const char *const *model_types; /* ends with NULL */
    /* the first of `architectures` in published configs that lack a model_type; NULL: there are none */
    const char *class_name;
    struct hf_defaults defaults;
    const char *epsilon_key; /* key of the norms' epsilon; NULL: rms_norm_eps */
    const char *activation_key;
    const char *activation;      /* the only supported one, and the default */
    const char *const *own_keys; /* as in struct gguf_form */
    struct tensor_naming naming;
    void (*read_config)(struct checkpoint_keys *keys, struct model_config *config); /* the same */
    /* model_types of classes of several parts that tie embeddings unless they say otherwise, whatever
     * their text's class does. Ends with NULL; NULL: none. */
    const char *const *tying_wholes;
    /* The whole alone decides whether embeddings are tied; its class does not tie them. */
    bool untying_whole;
    /* Reads keys of the text model that stand outside text_config; NULL: there are none. */
    void (*read_whole)(struct checkpoint_keys *root, struct model_config *config);
    /* Completes the config from the tensor table, for facts that no key states; NULL: none.
     * `prefix` as in struct plan_source. */
    void (*look_at_tensors)(const struct tensor_table *tensors, const char *prefix,
                            struct model_config *config);
    const struct hf_vision_form *vision; /* NULL: text only, or the tower is not supported */
    const struct hf_vision_form *sound;  /* the tower of sounds beside it; NULL: none */
};

/* A vision tower that classes with any text family have: found by the model_type of config.json and
 * that of its vision_config. */
struct model_tower {
    const char *const *model_types;  /* of the whole, ends with NULL */
    const char *const *vision_types; /* ends with NULL; the first is the class's default */
    /* The tower that vision_config names as model_name, where a class has several; NULL: any. A row with a name is before
     * those without. */
    const char *tower_name;
    const char *text_type; /* the model_type of a text that states none; NULL: it must */
    const struct hf_vision_form *hf;
    /* These classes tie embeddings unless they say otherwise. */
    bool ties;
    void (*list_ops)(struct plan_builder *builder, const struct vision_config *config);
};

/* A layer that predicts the token after the next one (multi-token prediction) from the model's last
 * hidden state and the next token: model.h, model_open_ahead(). */
struct ahead_form {
    /* The embedding and the output matrix are the model's. In GGUF the layer is the first after the
     * model's. Asked for are the names "nextn.…" of ahead_blocks.h, and those of layer 0. */
    struct tensor_naming hf;
    bool
        hf_after_last; /* so it is in folders: layers.N; else it is a part of its own, the naming's prefix */
    /* Of a config with the one layer; takes hidden states and keeps its own. */
    plan_tensor_id (*list_ops)(struct plan_builder *builder, const struct model_config *config);
};

struct assistant_target;

struct model_family {
    const char *architecture;     /* general.architecture of GGUF; also the name in logs */
    const struct gguf_form *gguf; /* NULL: GGUF has no architecture of this name */
    const struct hf_form *hf;
    /* Lists the forward pass and returns the logits tensor. The builder keeps errors. */
    plan_tensor_id (*list_ops)(struct plan_builder *builder, const struct model_config *config);
    /* Lists the vision tower; set if hf->vision is. */
    void (*list_vision_ops)(struct plan_builder *builder, const struct vision_config *config);
    /* Lists the tower of sounds; set if hf->sound is. */
    void (*list_sound_ops)(struct plan_builder *builder, const struct vision_config *config);
    const struct ahead_form *ahead; /* NULL: such layers are not known */
    /* Lists the pass of an assistant, a drafter whose config borrows caches (gemma_blocks.h); NULL: the family
     * has none. */
    plan_tensor_id (*list_assistant_ops)(struct plan_builder *builder,
                                         const struct model_config *config,
                                         const struct assistant_target *target);
};

#endif
