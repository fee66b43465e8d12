"""What the Python scripts of this folder share: the object they ask for, and the loop that calls a feature many times.

A script is run by `run` in the virtual environment of its library, with SHOAL_URL (no /v1), SHOAL_MODEL, SHOAL_CALLS and SHOAL_AT_ONCE. It prints
one JSON line for each feature: {"feature", "good", "calls", "error"}. A call is good if the function returns without an exception.
"""

import concurrent.futures
import json
import os
import sys
from typing import Annotated, Literal

from pydantic import BaseModel, Field

URL = os.environ["SHOAL_URL"]
MODEL = os.environ["SHOAL_MODEL"]
CALLS = int(os.environ["SHOAL_CALLS"])
AT_ONCE = int(os.environ["SHOAL_AT_ONCE"])
QUESTION = "Describe one shape of an image."
OVERLONG = "word " * 9000  # a prompt that no context here holds
TOKENS = 400  # bounds of the object make an answer much shorter


class Shape(BaseModel):
    """A shape in an image."""
    name: str = Field(max_length=12, description="What it is called")
    kind: Literal["circle", "square", "triangle"]
    count: int = Field(ge=1, le=20)
    size: float = Field(ge=0, le=10)
    tags: list[Annotated[str, Field(max_length=8)]] = Field(max_length=3)
    next_to: Literal["left", "right"] | None


def check_shape(shape):
    """Validates it once more, from its JSON: the library might have built it without."""
    assert isinstance(shape, Shape), repr(shape)
    Shape.model_validate_json(shape.model_dump_json())


def check_arguments(arguments):
    Shape.model_validate(json.loads(arguments) if isinstance(arguments, str) else arguments)


def check_overflow(error, function):
    """The call must raise the library's own error of a context that is too short."""
    try:
        function()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def attempt(function):
    try:
        function()
        return None
    except Exception as error:  # whatever the library throws
        return f"{type(error).__name__}: {error}"[:600]


def run(features):
    """`features`: {name: (function, calls or None)}; None is SHOAL_CALLS."""
    for name, (function, calls) in features.items():
        count = CALLS if calls is None else min(calls, CALLS)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            errors = list(pool.map(lambda _, work=function: attempt(work), range(count)))
        failed = [error for error in errors if error]
        print(json.dumps({"feature": name, "good": count - len(failed), "calls": count, "error": failed[0] if failed else None}), flush=True)
    sys.stdout.flush()
