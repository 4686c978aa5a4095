"""What orders the operations of a host program, from sets alone.

An independent model for tests: every step of a program is a node, every rule adds
edges to earlier nodes, and what comes before a node is the union over its edges. No
clocks, no shadow memory: all pairs of operations are compared byte by byte.
"""

from dataclasses import dataclass, field


@dataclass
class Node:
    before: frozenset[int]
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    name: str = ""


@dataclass
class Model:
    """A program, step by step; streams are small numbers, 0 the legacy default one.

    Attributes:
        blocking: The streams that the default one orders.
    """

    blocking: frozenset[int]
    nodes: list[Node] = field(default_factory=list)
    last: dict[object, int] = field(default_factory=dict)
    events: dict[int, int] = field(default_factory=dict)

    def add(self, after, name="", reads=(), writes=()):
        before = set()
        for node in after:
            if node is not None:
                before |= {node} | self.nodes[node].before
        self.nodes.append(
            Node(frozenset(before), frozenset(reads), frozenset(writes), name)
        )
        return len(self.nodes) - 1

    def host(self, thread=0, after=(), **given):
        node = self.add([self.last.get(("host", thread)), *after], **given)
        self.last["host", thread] = node
        return node

    def tails(self, stream):
        """What the next operation of a stream comes after, beyond the host."""
        if stream == 0:
            return [self.last.get(0), *(self.last.get(s) for s in self.blocking)]
        both = [self.last.get(stream)]
        return both + ([self.last.get(0)] if stream in self.blocking else [])

    def work_of(self, stream):
        """What a wait of the host for a stream covers."""
        return self.tails(stream) if stream == 0 else [self.last.get(stream)]

    def operate(self, stream, thread=0, after=(), **given):
        call = self.host(thread)
        node = self.add([call, *self.tails(stream), *after], **given)
        self.last[stream] = node
        return node

    def record(self, event, stream, thread=0):
        self.events[event] = self.operate(stream, thread)

    def wait(self, stream, event, thread=0):
        if event in self.events:
            self.operate(stream, thread, after=[self.events[event]])

    def wait_host(self, targets, thread=0):
        self.host(thread, after=targets)

    def nearest(self):
        """The races that have to be told: none lies behind one side of them.

        Where an access `c` comes after `a` and races with `b`, as `a` does, `a` may
        have been forgotten for `c`.
        """
        racing = self.races()
        index = {n.name: i for i, n in enumerate(self.nodes) if n.reads or n.writes}
        found = set()
        for (one, two), shared in racing.items():
            for a, b in ((one, two), (two, one)):
                closer = {
                    byte
                    for c, i in index.items()
                    if index[a] in self.nodes[i].before
                    for byte in racing.get((c, b), set()) | racing.get((b, c), set())
                }
                shared = shared - closer
            if shared:
                found.add((one, two))
        return found

    def races(self):
        """Every pair of named nodes that race, with the bytes they race on."""
        found = {}
        named = [(i, n) for i, n in enumerate(self.nodes) if n.reads or n.writes]
        for index, (i, a) in enumerate(named):
            for j, b in named[index + 1 :]:
                if i in b.before or j in a.before:
                    continue
                both = (a.writes & (b.writes | b.reads)) | (a.reads & b.writes)
                if both:
                    found[a.name, b.name] = both
        return found
