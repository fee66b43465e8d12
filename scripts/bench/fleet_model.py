"""One server of scripts/bench/fleet_sim: the worker's schedule with measured step costs in place of arithmetic.

The rules are those of worker/schedule/README.md: first in, first out; decodes first; prompt chunks by the learned price of rows, chosen by the
worker's own code (build/step_pace.so); admission by free KV blocks; preemption of the youngest; the prefix cache with its eviction order. The
structs here are those of step_pace.h and chunk_pace.h; tests/scripts/fleet_sim_test.py compares their layout.

Simplified: one group of KV blocks; blocks of an answer are cached when it ends, not as they fill; a step's length is its measured mean, without
noise; max_tokens of a request is the length of its answer; drafts, images, grammars and LoRA are absent, and so are a second step under way (a
device's steps include its host's part) and decodes in halves.
"""

import collections
import ctypes
import dataclasses
import heapq
import pathlib

import numpy

KV_BLOCK = 16  # tokens, as in worker/plan/kv_layout.h
PACE_LIBRARY = pathlib.Path(__file__).resolve().parents[2] / "build/step_pace.so"
CHUNK_CLASSES = 20
PACE_SIZES = 12
SPARE_BYTES = 4096  # behind struct step_pace, so that a library whose struct has grown writes over nothing


class ChunkPace(ctypes.Structure):  # struct chunk_pace
    _fields_ = [(name, ctypes.c_double * CHUNK_CLASSES) for name in ("added_us", "alone_us", "decode_us", "decode_rows")] + [
        ("answer_tokens", ctypes.c_double), ("mixed_steps", ctypes.c_uint32)]


class StepPace(ctypes.Structure):  # struct step_pace
    _fields_ = [("row_us", ctypes.c_double), ("stream_us", ctypes.c_double), ("patch_us", ctypes.c_double),
                ("added_us", ctypes.c_double * PACE_SIZES), ("chunks", ChunkPace)]


class StepCost(ctypes.Structure):  # struct step_cost
    _fields_ = [("prompt_rows", ctypes.c_uint32), ("decode_rows", ctypes.c_uint32), ("patch_work", ctypes.c_uint64),
                ("patch_us", ctypes.c_uint64), ("time_us", ctypes.c_uint64)]


class ChunkRequest(ctypes.Structure):  # struct chunk_request
    _fields_ = [("decode_rows", ctypes.c_uint32), ("backlog_rows", ctypes.c_uint32), ("waiting", ctypes.c_uint32),
                ("prompt_tokens", ctypes.c_uint64), ("draws", ctypes.c_uint64), ("most_rows", ctypes.c_uint32), ("fixed", ctypes.c_bool), ("target_us", ctypes.c_double)]


class Pace:
    """How many prompt rows a step has, learned as the worker learns it."""

    def __init__(self, target_ms):
        self.library, self.target_us = ctypes.CDLL(str(PACE_LIBRARY)), target_ms * 1000.0
        self.memory = (ctypes.c_char * (ctypes.sizeof(StepPace) + SPARE_BYTES))()
        self.pace = StepPace.from_buffer(self.memory)
        self.library.step_pace_prefill_only_rows.restype = self.library.chunk_pace_rows.restype = ctypes.c_uint32
        self.library.step_pace_note.restype = None

    def prompt_rows(self, decodes, backlog, waiting, totals, most):
        """The most prompt rows of a step beside `decodes` streams. `totals`: tokens of the running prompts and of their answers."""
        if decodes == 0:
            return self.library.step_pace_prefill_only_rows(ctypes.byref(self.pace), most)
        request = ChunkRequest(decodes, backlog, waiting, *totals, most, False, self.target_us)
        return self.library.chunk_pace_rows(ctypes.byref(self.pace.chunks), ctypes.byref(request))

    def note(self, prompt_rows, decodes, step_s):
        cost = StepCost(prompt_rows, decodes, 0, 0, round(step_s * 1e6))
        self.library.step_pace_note(ctypes.byref(self.pace), ctypes.byref(cost))


@dataclasses.dataclass
class Costs:
    """Step costs of one device and model (fleet_measure.py writes them). Beyond the last point of the curve its last slope goes on."""
    rows: list  # number of rows of a step, ascending, the first is 1
    rows_ms: list  # time of a step of so many prompt rows without logits and attention
    logits_ms: float  # of each row that draws a token
    attention_ns: float  # of each row and position that it sees, in decodes
    prompt_attention_ns: float = None  # the same in prompts; None: as in decodes
    step_ms: float = 0.0  # added to each step by the running server
    request_ms: float = 0.0  # from a client's request to its place in the worker's queue, and back with the first token
    max_sequences: int = 64
    step_tokens: int = 512
    itl_target_ms: float = 100.0
    kv_blocks: int = 65536
    prefix_cache: bool = True
    measured: str = ""  # device, model, date, command

    def __post_init__(self):
        if self.prompt_attention_ns is None:
            self.prompt_attention_ns = self.attention_ns
        assert len(self.rows) == len(self.rows_ms) >= 2 and self.rows[0] == 1
        assert all(a < b for a, b in zip(self.rows, self.rows[1:]))

    def rows_time_ms(self, rows):
        if rows <= self.rows[-1]:
            return float(numpy.interp(rows, self.rows, self.rows_ms))
        slope = (self.rows_ms[-1] - self.rows_ms[-2]) / (self.rows[-1] - self.rows[-2])
        return self.rows_ms[-1] + max(slope, 0) * (rows - self.rows[-1])

    def step_s(self, rows, draws, seen, prompt_seen):
        """`seen`: sum over decode rows of the positions that each one sees; `prompt_seen`: the same over prompt rows."""
        return (self.rows_time_ms(rows) + self.logits_ms * draws + self.step_ms) / 1e3 + (
            self.attention_ns * seen + self.prompt_attention_ns * prompt_seen) / 1e9


class Blocks:
    """KV blocks of one server: private ones of sequences, and shared ones with a name, held or idle. `per` KV blocks have one name."""

    def __init__(self, total, per, shares):
        self.total, self.per, self.shares = total, per, shares
        self.private = 0
        self.held = {}  # name -> number of sequences
        self.idle = collections.OrderedDict()  # next to be evicted first

    def available(self):
        return self.total - self.private - self.per * len(self.held)

    def cached(self, names):
        """How many of the leading names have blocks."""
        count = 0
        while self.shares and count < len(names) and (names[count] in self.held or names[count] in self.idle):
            count += 1
        return count

    def hold(self, name):
        self.idle.pop(name, None)
        self.held[name] = self.held.get(name, 0) + 1

    def take(self, blocks):
        """Private blocks; idle ones are evicted for them."""
        self.private += blocks
        assert self.available() >= 0
        while self.private + self.per * (len(self.held) + len(self.idle)) > self.total:
            self.idle.popitem(last=False)

    def publish(self, name):
        """A sequence's private blocks become shared ones, or are given back because the name has blocks."""
        self.private -= self.per
        self.hold(name)

    def release(self, names, private):
        """A sequence gives back its blocks, the last ones first, so that the beginning of a prefix is evicted last."""
        self.private -= private
        for name in reversed(names):
            self.held[name] -= 1
            if self.held[name] == 0:
                del self.held[name]
                self.idle[name] = None
        assert self.private >= 0


class Sequence:
    """A request on a server."""
    __slots__ = ("request", "number", "known", "computed", "made", "names", "private", "cached", "shared", "first_s", "last_s", "ends_at", "phase", "from_step")

    def __init__(self, request, number):
        self.request, self.number = request, number
        self.known = request.prompt  # tokens to compute before the next one is drawn
        self.computed = self.made = self.private = 0
        self.names = []  # shared blocks that it holds
        self.cached = self.first_s = None
        self.last_s = self.ends_at = self.phase = self.from_step = None


@dataclasses.dataclass
class Done:
    """A finished request; times in seconds since the start of the trace."""
    number: int
    server: int
    at_s: float
    first_s: float
    end_s: float
    prompt: int
    answer: int
    cached: int

    @property
    def ttft_s(self):
        return self.first_s - self.at_s

    @property
    def tpot_s(self):
        return (self.end_s - self.first_s) / (self.answer - 1) if self.answer > 1 else 0.0


class Server:
    def __init__(self, costs, index=0, trace_block=KV_BLOCK):
        assert trace_block % KV_BLOCK == 0
        self.costs, self.index, self.trace_block = costs, index, trace_block
        self.pace = Pace(costs.itl_target_ms)
        self.blocks = Blocks(costs.kv_blocks, trace_block // KV_BLOCK, costs.prefix_cache)
        self.now_s = 0.0
        self.steps = 0
        self.busy_s = 0.0
        self.queue = collections.deque()  # (time from which it may start, sequence)
        self.prompts = []  # running, not decoding, by arrival
        self.decodes = {}  # number -> sequence, by arrival
        self.ends = []  # heap of (step, number)
        self.totals = [0, 0]  # of running requests: prompt tokens that no cache had, and answer tokens
        self.seen = 0  # positions that all decode rows of the next step see
        self.phases = [0] * KV_BLOCK  # decodes by the step in which they need a block
        self.gaps = []  # (seconds, number of streams)
        self.done = []
        self.preemptions = 0

    # --- what a router sees ------------------------------------------------------------------------

    def in_flight(self):
        return len(self.queue) + self.running()

    def running(self):
        return len(self.prompts) + len(self.decodes)

    def waiting(self):
        return len(self.queue)

    def kv_usage(self):
        return 1 - self.blocks.available() / self.blocks.total

    # --- requests ----------------------------------------------------------------------------------

    def fits(self, request):
        return -(-(request.prompt + request.answer) // KV_BLOCK) <= self.costs.kv_blocks

    def add(self, request, number):
        self.queue.append((request.at_s + self.costs.request_ms / 1e3, Sequence(request, number)))

    def _names(self, sequence):
        return sequence.request.ids + sequence.request.answer_ids

    def _promised(self):
        return sum(-(-one.known // KV_BLOCK) - self._held(one) for one in self.prompts)

    def _held(self, sequence):
        return len(sequence.names) * self.blocks.per + sequence.private

    def _admit(self):
        promised = self._promised()
        while self.queue and self.queue[0][0] <= self.now_s and self.running() < self.costs.max_sequences:
            sequence = self.queue[0][1]
            most = (sequence.known - 1) // self.trace_block  # one token is left to compute
            names = self._names(sequence)[:most]
            hits = self.blocks.cached(names)
            wanted = -(-sequence.known // KV_BLOCK)
            shared = sum(name in self.blocks.held for name in names[:hits]) * self.blocks.per
            if self.running() and promised + wanted - shared + len(self.decodes) > self.blocks.available():
                return
            self.queue.popleft()
            for name in names[:hits]:
                self.blocks.hold(name)
            sequence.names = list(names[:hits])
            sequence.computed = hits * self.trace_block
            if sequence.cached is None:
                sequence.cached = sequence.computed
            promised += wanted - self._held(sequence)
            self.prompts.append(sequence)
            sequence.shared = sequence.computed
            self._count(sequence, 1)

    def _count(self, sequence, sign):
        self.totals[0] += sign * (sequence.request.prompt - min(sequence.shared, sequence.request.prompt))
        self.totals[1] += sign * sequence.request.answer

    # --- a step ------------------------------------------------------------------------------------

    def advance(self, until_s):
        """Runs the steps that begin before `until_s`."""
        while self.now_s < until_s:
            self._admit()
            if not self.running():
                if not self.queue or self.queue[0][0] >= until_s:
                    return
                self.now_s = max(self.now_s, self.queue[0][0])
                continue
            self._step()

    def _step(self):
        while self.phases[self.steps % KV_BLOCK] > self.blocks.available():
            self._preempt()
        crossing = self.phases[self.steps % KV_BLOCK]
        for sequence in self.decodes.values() if crossing else ():
            sequence.private += sequence.phase == self.steps % KV_BLOCK
        self.blocks.take(crossing)
        decodes = len(self.decodes)
        chunks = self._chunks(decodes)
        prompt_rows = sum(rows for _, rows in chunks)
        assert prompt_rows + decodes > 0
        prompt_seen = sum(rows * one.computed + rows * (rows + 1) // 2 for one, rows in chunks)
        ready = [one for one, rows in chunks if one.computed + rows == one.known]
        took_s = self.costs.step_s(prompt_rows + decodes, decodes + len(ready), self.seen, prompt_seen)
        self.pace.note(prompt_rows, decodes, took_s)
        self.now_s += took_s
        self.busy_s += took_s
        self.steps += 1
        self.seen += decodes
        if decodes:
            self.gaps.append((took_s, decodes))
        for sequence, rows in chunks:
            self._compute(sequence, rows)
        self._end_answers()
        for sequence in ready:
            self._first_token(sequence)

    def _chunks(self, decodes):
        """(sequence, rows) of the prompts in this step."""
        backlog = sum(one.known - one.computed for one in self.prompts)
        if backlog == 0:
            return []
        budget = self.pace.prompt_rows(decodes, backlog, len(self.prompts), self.totals, self.costs.step_tokens - decodes)
        budget = min(budget, self.costs.step_tokens - decodes)
        chunks, free = [], self.blocks.available()
        for sequence in self.prompts:
            wanted = sequence.known - sequence.computed
            room = (self._held(sequence) + free) * KV_BLOCK - sequence.computed
            rows = min(wanted, budget, room)
            if rows <= 0:
                break
            needed = -(-(sequence.computed + rows) // KV_BLOCK) - self._held(sequence)
            sequence.private += max(needed, 0)
            self.blocks.take(max(needed, 0))
            free -= max(needed, 0)
            budget -= rows
            chunks.append((sequence, rows))
            if rows < wanted:
                break
        return chunks

    def _compute(self, sequence, rows):
        sequence.computed += rows
        names = self._names(sequence)
        for at in range(len(sequence.names), min(sequence.computed // self.trace_block, len(names))):
            self.blocks.publish(names[at])
            sequence.private -= self.blocks.per
            sequence.names.append(names[at])

    def _first_token(self, sequence):
        """The prompt is computed; the token drawn with its last row is sent."""
        self.prompts.remove(sequence)
        if sequence.first_s is None:
            sequence.first_s = self.now_s
        else:
            self.gaps.append((self.now_s - sequence.last_s, 1))  # after a preemption
        sequence.made += 1
        sequence.from_step = self.steps
        sequence.ends_at = self.steps + sequence.request.answer - sequence.made
        if sequence.ends_at == self.steps:
            self._finish(sequence)
            return
        # The row of step s is at position known + s - from_step: a new block where that is a multiple.
        sequence.phase = (sequence.from_step - sequence.known) % KV_BLOCK
        self.phases[sequence.phase] += 1
        self.seen += sequence.known + 1
        self.decodes[sequence.number] = sequence
        heapq.heappush(self.ends, (sequence.ends_at, sequence.number))

    def _leave(self, sequence):
        """Out of the decoding sequences; counts its tokens."""
        del self.decodes[sequence.number]
        made = self.steps - sequence.from_step
        self.phases[sequence.phase] -= 1
        self.seen -= sequence.known + 1 + made
        sequence.made += made
        sequence.computed = sequence.known + made

    def _end_answers(self):
        while self.ends and self.ends[0][0] <= self.steps:
            step, number = heapq.heappop(self.ends)
            sequence = self.decodes.get(number)
            if sequence is None or sequence.ends_at != step:
                continue  # it was preempted
            self._leave(sequence)
            self._compute(sequence, 0)
            self._finish(sequence)

    def _finish(self, sequence):
        request = sequence.request
        assert sequence.made == request.answer
        self._count(sequence, -1)
        self.blocks.release(sequence.names, sequence.private)
        self.done.append(Done(sequence.number, self.index, request.at_s, sequence.first_s, self.now_s, request.prompt, request.answer,
                              sequence.cached))

    def _preempt(self):
        """The youngest running sequence becomes the head of the queue; its tokens are computed again."""
        youngest = max([*self.prompts[-1:], *self.decodes.values()], key=lambda one: one.number)
        assert self.running() > 1, "a sequence alone always fits"
        if youngest.number in self.decodes:
            self._leave(youngest)
            youngest.known, youngest.last_s = youngest.request.prompt + youngest.made, self.now_s
        else:
            self.prompts.remove(youngest)
        self._count(youngest, -1)
        self.blocks.release(youngest.names, youngest.private)
        youngest.names, youngest.private, youngest.computed, youngest.ends_at = [], 0, 0, None
        self.queue.appendleft((self.now_s, youngest))
        self.preemptions += 1
