"""Ten clips of odd sizes, lengths and rates, and how the tiny vision models are asked about them: for video_requests.py, which records
the answers of transformers, and for the tests that compare with them."""

import numpy as np

from vision_folder import GEMMA4, GLM

# frames, width, height, milliseconds of each frame
CLIPS = [(1, 16, 16, 500), (2, 17, 9, 500), (3, 33, 21, 400), (5, 20, 40, 1000), (7, 31, 17, 70), (12, 24, 16, 130), (25, 15, 15, 40),
         (40, 9, 50, 100), (61, 24, 16, 50), (100, 12, 8, 200)]
FAMILIES = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"]
MAX_FRAMES = 32
QUESTION = "What moves?"
GLM_FILM = GLM | {
    "special": GLM["special"] | {"<|video|>": 92, "<|begin_of_video|>": 87, "<|end_of_video|>": 88},
    "video_marker": "<|begin_of_video|><|video|><|end_of_video|>",
}
GEMMA4_FILM = GEMMA4 | {"special": GEMMA4["special"] | {"<|video|>": 92}, "video_marker": "<|video|>"}
SMOL_SIDE = 24
SMOL_FILM = {
    "special": {"<fake_token_around_image>": 88, "<global-img>": 89, "<image>": 91},
    "characters": "\n[]", "marker": "<image>", "video_marker": "<video>",
    "processor": {"image_processor_type": "SmolVLMImageProcessor", "size": {"longest_edge": 48}, "max_image_size": {"longest_edge": SMOL_SIDE}},
}
TIMED = {  # model: family, form of its folder, settings of its video processor
    "glm4v": ("glm4v", GLM_FILM, {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2, "fps": 2, "max_duration": 6,
                                  "size": {"shortest_edge": 512, "longest_edge": 16384}}),
    "glm4v_wide": ("glm4v", GLM_FILM | {"processor": GLM["processor"] | {"patch_size": 5, "merge_size": 3}}, {"patch_size": 5, "merge_size": 3, "temporal_patch_size": 2, "fps": 3, "max_duration": 300,
                                       "size": {"shortest_edge": 1024, "longest_edge": 32768}}),
    "smolvlm": ("smolvlm", SMOL_FILM, {"do_sample_frames": True, "max_image_size": {"longest_edge": SMOL_SIDE},
                                       "video_sampling": {"fps": 1, "max_frames": 6, "video_size": {"longest_edge": 40}}}),
    "gemma4": ("gemma4", GEMMA4_FILM, {"patch_size": 4, "pooling_kernel_size": 3, "max_soft_tokens": 70, "num_frames": 4}),
}


def frames(number):
    """u8 [frames, height, width, 3] of the 216 colours whose channels are multiples of 51."""
    count, width, height, _ = CLIPS[number]
    f, y, x, c = np.ogrid[:count, :height, :width, :3]
    return ((x * (c + 1) // 2 + y * (3 - c) // 2 + f * (2 + c) + (x * y * (f + 1)) // 7 + number) % 6 * 51).astype(np.uint8)


def settings(family):
    """video_preprocessor_config.json for one of the tiny models, whose features are 8 x 8 pixels."""
    timed = family in ("qwen3_vl", "qwen3_5")
    return {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2, "fps": 2, "min_frames": 4, "max_frames": MAX_FRAMES,
            "size": {"shortest_edge": 256, "longest_edge": 16384 if timed else 2048}, "max_video_tokens": 12 if timed else 150,
            "cap_pixels_per_frame": True} | ({"image_mean": [0.5] * 3, "image_std": [0.5] * 3} if timed else {})
