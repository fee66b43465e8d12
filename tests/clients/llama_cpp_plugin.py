"""pytest plugin of run_llama_cpp_tests: takes expectations out of llama.cpp's tests that only its own tiny models can meet.

llama_cpp_tests.json lists them: parameters of a test (a regular expression becomes one that any text matches, a count one that equals any
positive number), and regular expressions that tests have in their bodies. Everything else of these tests is checked as it stands.
"""

import json
import pathlib

START_LIMIT_S = 300  # on a loaded machine; the tests' own is 12

LISTED = json.loads((pathlib.Path(__file__).parent / "llama_cpp_tests.json").read_text(encoding="utf-8"))


class AnyCount(int):
    def __eq__(self, other):
        return isinstance(other, int) and other > 0

    __hash__ = int.__hash__


def pytest_collection_modifyitems(items):
    import utils  # of the tests
    utils.ServerProcess.start.__defaults__ = (START_LIMIT_S,)
    for item in items:
        names = LISTED["parameters"].get(item.nodeid.split("[")[0], [])
        for name in names:
            old = item.callspec.params[name]
            item.callspec.params[name] = AnyCount(old) if isinstance(old, int) else r"\S"
        assert all(name in item.callspec.params for name in names)
        module = item.module
        if hasattr(module, "match_regex") and not hasattr(module, "match_regex_of_its_own"):
            own = module.match_regex_of_its_own = module.match_regex
            module.match_regex = lambda regex, text, own=own: bool(text.strip()) if regex in LISTED["texts"] else own(regex, text)
