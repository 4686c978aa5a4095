"""A runtime with named streams and memory, for tests of what races with what."""

from sidestream.harness.runtime import CallSite, Landing, Runtime, Span

POLICIES = (
    "eager",
    "laziest",
    "latest",
    "round-robin",
    "random:1",
    "random:2",
    "random:3",
)


class Case:
    """Operations say by name what they touch; `log` has them as they landed."""

    def __init__(self, policy: str = "round-robin", **given: object) -> None:
        self.rt = Runtime(landing=Landing.parse(policy), **given)
        self.default = self.rt.stream(0)
        self.log: list[str] = []
        self.names: dict[str, Span] = {}

    def memory(self, name: str, size: int = 64) -> Span:
        """The bytes of a name, apart from those of all others."""
        if name not in self.names:
            self.names[name] = Span(0x1000 * (len(self.names) + 1), size)
        return self.names[name]

    def place(self, name: str, block) -> Span:
        """Let a name stand for the bytes of a block."""
        self.names[name] = Span(block.address, block.requested)
        return self.names[name]

    def do(self, label, stream, reads="", writes="", kind="launch", run=None):
        """Call an operation that touches the memory of space-separated names."""

        def land():
            self.log.append(label)
            return run() if run is not None else None

        return self.rt.enqueue(
            kind=kind,
            label=label,
            stream=stream,
            reads=[self.memory(name) for name in reads.split()],
            writes=[self.memory(name) for name in writes.split()],
            run=land,
            site=CallSite(frames=(f"program.py:{label}",)),
        )

    def races(self) -> list[tuple[str, str, str]]:
        """Kind and labels of the races once everything has landed."""
        self.rt.drain()
        return [(r.kind, r.first.label, r.second.label) for r in self.rt.races()]

    def clean(self) -> bool:
        return self.races() == []
