"""Routing policies of scripts/bench/fleet_sim, and the run of a trace over a fleet."""

import collections
import dataclasses

import fleet_model


class RoundRobin:
    name = "round robin"

    def __init__(self, servers, _):
        self.next, self.count = 0, len(servers)

    def choose(self, _servers, _request):
        self.next += 1
        return (self.next - 1) % self.count


class LeastLoaded:
    """The server with the fewest requests that the router sent there and that have not ended; among equals the one after the last choice."""
    name = "least loaded"

    def __init__(self, servers, _):
        self.last, self.count = -1, len(servers)

    def choose(self, servers, _request):
        order = [(self.last + 1 + i) % self.count for i in range(self.count)]
        self.last = min(order, key=lambda i: servers[i].in_flight())
        return self.last


QUEUE_WEIGHT, KV_WEIGHT, PREFIX_WEIGHT = 2, 2, 3


class PrefixAware:
    """The highest weighted sum of: the share of the prompt's blocks that the server was sent before; its queue, 1 for the shortest and 0 for the
    longest of all; the free share of its KV cache. Scores and weights are the default ones of the Gateway API Inference Extension's endpoint
    picker (v1.5.0, pkg/epp/config/loader/defaults.go). Queue and KV cache are as old as the last scrape; what was sent where is the router's own
    list, for each server the latest blocks that its KV cache can hold."""
    name = "prefix aware"

    def __init__(self, servers, options):
        self.scrape_s, self.scraped_s = options.scrape_s, None
        self.sent = [collections.OrderedDict() for _ in servers]
        self.most = servers[0].costs.kv_blocks // servers[0].blocks.per
        self.figures, self.last = [], -1

    def _scrape(self, servers, now_s):
        if self.scraped_s is None or now_s - self.scraped_s >= self.scrape_s:
            self.figures = [(one.waiting(), one.kv_usage()) for one in servers]
            self.scraped_s = now_s

    def _score(self, index, request):
        queues = [queue for queue, _ in self.figures]
        queue, usage = self.figures[index]
        spread = max(queues) - min(queues)
        matched = 0
        while matched < len(request.ids) and request.ids[matched] in self.sent[index]:
            matched += 1
        return (QUEUE_WEIGHT * ((max(queues) - queue) / spread if spread else 1) + KV_WEIGHT * (1 - usage)
                + PREFIX_WEIGHT * (matched / len(request.ids) if request.ids else 0))

    def choose(self, servers, request):
        self._scrape(servers, request.at_s)
        order = [(self.last + 1 + i) % len(servers) for i in range(len(servers))]
        self.last = max(order, key=lambda i: self._score(i, request))
        known = self.sent[self.last]
        for name in request.ids:
            known[name] = None
            known.move_to_end(name)
        while len(known) > self.most:
            known.popitem(last=False)
        return self.last


POLICIES = {"round-robin": RoundRobin, "least-loaded": LeastLoaded, "prefix-aware": PrefixAware}


@dataclasses.dataclass
class FleetOptions:
    servers: int = 1
    trace_block: int = fleet_model.KV_BLOCK
    scrape_s: float = 0.05  # the picker's default


@dataclasses.dataclass
class Outcome:
    policy: str
    done: list  # fleet_model.Done, by number of the request
    gaps: list  # (seconds, number of streams)
    refused: int  # requests that no server has room for
    busy: list  # seconds of steps of each server
    preemptions: int
    steps: int

    @property
    def duration_s(self):
        return max((one.end_s for one in self.done), default=0.0)


def simulate(requests, costs, policy, options):
    """Replays the requests over options.servers equal servers."""
    servers = [fleet_model.Server(costs, i, options.trace_block) for i in range(options.servers)]
    router = POLICIES[policy](servers, options)
    refused = 0
    for number, request in enumerate(requests):
        if not servers[0].fits(request):
            refused += 1
            continue
        for server in servers:
            server.advance(request.at_s)
        servers[router.choose(servers, request)].add(request, number)
    for server in servers:
        server.advance(float("inf"))
        assert not server.in_flight() and not server.blocks.held and server.blocks.private == 0
    done = sorted((one for server in servers for one in server.done), key=lambda one: one.number)
    gaps = [gap for server in servers for gap in server.gaps]
    return Outcome(policy, done, gaps, refused, [server.busy_s for server in servers], sum(server.preemptions for server in servers),
                   sum(server.steps for server in servers))
