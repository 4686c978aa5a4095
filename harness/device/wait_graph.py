"""Who keeps whom waiting: the graph of a launch that cannot go on, and its root.

An agent is a warp that waits, a gate what it waits for. An agent points at its gate,
and a gate at the agents that may still open it. A gate that nobody can open any more is
the root; all that lead to it are victims. Where there is none, some wait in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from sidestream.harness.device.arrivals import Arriver, Phase, ahead_of, phase_of
from sidestream.harness.exec import abi
from sidestream.harness.exec.program import SMEM_BASE, Program
from sidestream.harness.exec.result import Result, Seen, Waiting

Triple = tuple[int, int, int]
_OF_A_WARP = ("warp-sync", "async-group", "tcgen05")


@dataclass(frozen=True, kw_only=True, order=True)
class Agent:
    """A warp of a CTA."""

    cta: Triple
    warp: int


@dataclass(frozen=True, kw_only=True, order=True)
class Gate:
    """What is waited for: `kind` of `Waiting`, of a CTA, and which of that kind."""

    cta: Triple
    kind: str
    address: int

    @property
    def offset(self) -> int:
        """Of an mbarrier: bytes of the CTA's shared memory."""
        return (self.address & 0xFF_FFFF) - SMEM_BASE


def gate_of(wait: Waiting) -> Gate:
    """Return what a warp waits for; lanes and operations of a warp are its own."""
    address = 0
    if wait.kind in ("mbarrier", "barrier"):
        address = wait.address & 0xFF_FFFF
    elif wait.kind in _OF_A_WARP:
        address = wait.warp
    return Gate(cta=wait.cta, kind=wait.kind, address=address)


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Somebody that arrived in phases before this one, and not in this one.

    Attributes:
        seen: What it did.
        fate: What became of it: `exited`, `passed` (it waits, and never comes there
            again) or `waits` (before it gets there).
    """

    seen: Seen
    fate: str


class WaitGraph:
    """The waits of one result, root first.

    Args:
        result: Of a launch that could not go on.
        program: What it executed.
        arrivers: By gate, what the text says may arrive at an mbarrier.
    """

    def __init__(
        self,
        result: Result,
        program: Program,
        arrivers: dict[Gate, list[Arriver]],
    ) -> None:
        self._program = program
        self._arrivers = arrivers
        self._ahead: dict[int, frozenset[int]] = {}
        self.waits: dict[Gate, list[Waiting]] = {}
        self._paths: dict[Agent, list[int]] = {}
        self._gates: dict[tuple[Triple, int], set[Gate]] = {}
        for wait in result.waiting:
            agent = Agent(cta=wait.cta, warp=wait.warp)
            if wait.kind:
                gate = gate_of(wait)
                self.waits.setdefault(gate, []).append(wait)
                self._gates.setdefault((wait.cta, wait.warp), set()).add(gate)
            self._paths.setdefault(agent, []).append(wait.pc)
        self._seen: dict[tuple[Triple, int], list[Seen]] = {}
        for seen in result.seen:
            self._seen.setdefault((seen.cta, seen.offset), []).append(seen)

    def _at(self, gate: Gate) -> list[Seen]:
        return self._seen.get((gate.cta, gate.offset), [])

    def phase(self, gate: Gate) -> Phase:
        """Return the state of an mbarrier that is waited for."""
        return phase_of(self.waits[gate][0].word)

    def _came(self, gate: Gate) -> set[tuple[int, Agent]]:
        return {
            (self._index(s.pc), Agent(cta=s.by, warp=s.warp))
            for s in self._at(gate)
            if s.op not in abi.MBAR_TESTS and s.last == s.phase
        }

    def dropped(self, gate: Gate) -> list[Seen]:
        """Return the arrive_drops at an mbarrier, which no later phase expects."""
        return [seen for seen in self._at(gate) if seen.op == abi.MBAR_DROP]

    def _left(self, gate: Gate, seen: Seen) -> bool:
        """Whether a warp has dropped since it arrived, with all that it had brought."""
        return seen.amount <= sum(
            drop.amount
            for drop in self.dropped(gate)
            if (drop.by, drop.warp) == (seen.by, seen.warp) and drop.last >= seen.last
        )

    def missing(self, gate: Gate) -> list[Missing]:
        """Tell who came to an mbarrier before and lacks now, the lost ones first."""
        state = self.phase(gate)
        found = []
        for seen in self._at(gate):
            brings = seen.op == abi.MBAR_COMPLETE_TX
            arrives = seen.op == abi.MBAR_ARRIVE and not self._left(gate, seen)
            lacks = state.bytes > 0 if brings else arrives and state.pending > 0
            all_of_it = seen.last == seen.phase and seen.amount >= seen.before
            if not lacks or all_of_it or not seen.phases:
                continue
            agent = Agent(cta=seen.by, warp=seen.warp)
            if agent not in self._paths:
                fate = "exited"
            else:  # an arm of its code that was not taken before may bring it there
                ways = {seen.pc, *(a.pc for a in self._arrivers.get(gate, []))}
                comes = any(self._comes(agent, pc) for pc in ways)
                fate = "waits" if comes else "passed"
            found.append(Missing(seen=seen, fate=fate))
        order = ("passed", "exited", "waits")
        # Who came in every phase but this one is missed more than who came at times.
        found.sort(key=lambda m: (order.index(m.fate), -m.seen.last, -m.seen.phases))
        return found

    def unexpected(self, gate: Gate) -> bool:
        """Whether an mbarrier has got bytes whose expect-tx has not come.

        The copies were issued behind it, so that it is over or gone.
        """
        state = self.phase(gate)
        return state.bytes < 0 and state.pending > 0

    def lapped(self, gate: Gate) -> tuple[Waiting, int, int] | None:
        """Return a waiter that saw fewer phases end than did, if more than one."""
        now = max((s.phase for s in self._at(gate)), default=0)
        for wait in self.waits[gate]:
            known = max(
                (
                    s.last
                    for s in self._at(gate)
                    if s.op in abi.MBAR_TESTS
                    and (s.by, s.warp) == (wait.cta, wait.warp)
                ),
                default=0,
            )
            if now - known > 1:
                return wait, known, now
        return None

    def _index(self, pc: int) -> int:
        return int(self._program.origin[pc])

    def _comes(self, agent: Agent, pc: int) -> bool:
        """Whether a warp that waits may still execute what stands at `pc`."""
        for at in self._paths[agent]:
            index = self._index(at)
            if index not in self._ahead:
                self._ahead[index] = ahead_of(self._program.function, index)
            if self._index(pc) in self._ahead[index]:
                return True
        return False

    def _openers(self, gate: Gate, *, surely: bool) -> Iterator[Agent]:
        """Give the waiting warps that may still open a gate.

        Args:
            gate: What is waited for.
            surely: False also follows arrivals whose barrier the text does not tell.
        """
        if gate.kind != "mbarrier":
            here = {Agent(cta=w.cta, warp=w.warp) for w in self.waits[gate]}
            if gate.kind in ("barrier", "cluster-barrier", "setmaxnreg", "tmem-alloc"):
                near = gate.kind in ("barrier", "setmaxnreg")
                for agent in self._paths:
                    if agent not in here and (not near or agent.cta == gate.cta):
                        yield agent
            return
        missing = self.missing(gate)
        if self.unexpected(gate):
            return
        if missing:
            for each in missing:
                if each.fate == "waits":
                    yield Agent(cta=each.seen.by, warp=each.seen.warp)
            return
        came = self._came(gate)
        for arriver in self._arrivers.get(gate, []):
            if surely and not arriver.sure:
                continue
            for agent in self._paths:
                near = agent.cta == gate.cta or not arriver.sure
                fresh = (self._index(arriver.pc), agent) not in came
                if near and fresh and self._comes(agent, arriver.pc):
                    yield agent

    @cached_property
    def graph(self) -> nx.DiGraph[Agent | Gate]:
        """Agents and gates, each pointing at what it waits for."""
        graph: nx.DiGraph[Agent | Gate] = nx.DiGraph()
        for gate, waits in self.waits.items():
            graph.add_node(gate)
            for wait in waits:
                graph.add_edge(Agent(cta=wait.cta, warp=wait.warp), gate)
                if gate.kind == "warp-sync":  # its other lanes are to come
                    for other in self._gates[wait.cta, wait.warp]:
                        if other.kind != "warp-sync":
                            graph.add_edge(gate, other)
            for agent in self._openers(gate, surely=True):
                graph.add_edge(gate, agent)
        return graph

    @cached_property
    def ranks(self) -> dict[Gate, tuple[int, ...]]:
        """By gate, how far it is from the root: the least is the root itself."""
        whole = nx.condensation(self.graph)
        ranks: dict[Gate, tuple[int, ...]] = {}
        for node, members in whole.nodes(data="members"):
            gates = [m for m in members if isinstance(m, Gate)]
            last = whole.out_degree(node) == 0
            explains = len(nx.ancestors(whole, node))
            for gate in gates:
                circle = len(members) > 1
                perhaps = any(True for _ in self._openers(gate, surely=False))
                behind = self._behind(gate) if circle else (0, 0)
                ranks[gate] = (
                    *(int(not last), int(not self._lost(gate)), int(circle)),
                    *(int(perhaps), *behind, -explains),
                )
        return ranks

    def _behind(self, gate: Gate) -> tuple[int, int]:
        """Order the gates of a circle: the least is whose arrival is due.

        First by the phases that are over for those who lack there, and that they do not
        know of: who has taken all that the others gave should have come, and who has
        not is held up. Then by the phases of the gate itself.
        """
        if gate.kind != "mbarrier":
            return 0, 0
        lacking = {(m.seen.by, m.seen.warp) for m in self.missing(gate)}
        taken: dict[tuple[Triple, int, Triple, int], Seen] = {}
        for seen in (s for each in self._seen.values() for s in each):
            if seen.op in abi.MBAR_TESTS and (seen.by, seen.warp) in lacking:
                key = (seen.by, seen.warp, seen.cta, seen.offset)
                if key not in taken or taken[key].last < seen.last:
                    taken[key] = seen
        open_ = dict.fromkeys(lacking, 0)
        for key, seen in taken.items():
            open_[key[0], key[1]] += seen.last < seen.phase
        phase = max((s.phase for s in self._at(gate)), default=0)
        return min(open_.values(), default=0), phase

    def _lost(self, gate: Gate) -> bool:
        """Whether somebody that came to an mbarrier before can come no more."""
        return gate.kind == "mbarrier" and (
            self.unexpected(gate) or any(m.fate != "waits" for m in self.missing(gate))
        )

    def circle(self, gate: Gate) -> list[Gate]:
        """Return the gates of a circle that a gate is in, itself first, or none."""
        for members in nx.strongly_connected_components(self.graph):
            if gate in members and len(members) > 1:
                around = nx.find_cycle(self.graph.subgraph(members), gate)
                found = [a for a, _ in around if isinstance(a, Gate)]
                if gate in found:
                    at = found.index(gate)
                    return found[at:] + found[:at]
        return []

    def victims(self, root: Gate, gates: Iterable[Gate]) -> set[Gate]:
        """Return those of `gates` whose waiters wait for the root in the end."""
        behind = nx.ancestors(self.graph, root)
        circle = set(self.circle(root))
        return {gate for gate in gates if gate in behind and gate not in circle}
