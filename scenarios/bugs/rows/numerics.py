"""Public bugs at the edges of the numbers."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Edit
from sidestream.scenarios.bugs.rows.row import Mutant, Row
from sidestream.scenarios.catalogue_each import TILE_EDGES

_CLIP = "if cutlass.const_expr(clip):"
_FIRST_TILE = "                span == CUT_RIGHT,\n"
_TAIL = "return end > 0 and own_end == end and tail < config.tile_n, tail"
_STORE = "            cell[0] = value\n"
_KEYED_LSE = "            if head % 4 == 0:\n                cell[0] = value\n"

NUMERICS: tuple[Row, ...] = (
    Row(
        issue="NVIDIA/cudnn-frontend#624",
        bug_class="numerics-edge",
        wrong="NaN behind the packed total reaches O as 0 times NaN: keys are bounded "
        "by the capacity.",
        scenarios=("nan-tail", "neighbour-nan"),
        mutants=(
            Mutant(
                arch="sm_100a",
                shape="d256",
                scenario="nan-tail",
                edits=(
                    Edit(
                        file="sm100/record.py",
                        old=_TAIL,
                        new=_TAIL.replace("tail < config.tile_n", "tail < 0"),
                    ),
                ),
                check="parity",
                kinds=frozenset({"nan"}),
            ),
        ),
    ),
    Row(
        issue="NVIDIA/cudnn-frontend#842",
        bug_class="numerics-edge",
        wrong="The same on SM120.",
        scenarios=("nan-tail", "neighbour-nan"),
        mutants=(
            Mutant(
                arch="sm_120a",
                shape="d128",
                scenario="nan-tail",
                edits=(
                    Edit(
                        file="sm120/values.py",
                        old=_CLIP,
                        new=_CLIP.replace("clip", "False"),
                    ),
                ),
                check="parity",
                kinds=frozenset({"nan"}),
            ),
        ),
    ),
    Row(
        issue="NVIDIA/cudnn-frontend#1156",
        bug_class="numerics-edge",
        wrong="Rows of V past a length that is no multiple of the tile poison O: the "
        "clearing hangs on a flag of another input form.",
        scenarios=("neighbour-nan", "nan-tail"),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="neighbour-nan",
                edits=(Edit(file=file, old=old, new=new),),
                check="parity",
                kinds=frozenset({"nan"}),
            )
            for arch, shapes, file, old, new in (
                (
                    "sm_120a",
                    ("d64", "e4m3"),
                    "sm120/consumer.py",
                    _FIRST_TILE,
                    _FIRST_TILE.replace(",", " and not config.prefix_kv,"),
                ),
                (
                    "sm_100a",
                    ("d192x128", "e4m3"),
                    "sm100/record.py",
                    _TAIL,
                    _TAIL.replace(
                        "tail < config.tile_n",
                        "tail < (0 if config.prefix_kv else config.tile_n)",
                    ),
                ),
            )
            for shape in shapes
        ),
        counterpart="The report is of FP8 with padded keys; the rows that must be "
        "cleared are the same.",
    ),
    Row(
        issue="NVIDIA/cudnn-frontend#1095",
        bug_class="numerics-edge",
        wrong="A row without keys and a very negative sink: its exponential "
        "underflows, O is NaN and LSE -inf.",
        scenarios=("negative-sink",),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="negative-sink",
                edits=(
                    Edit(
                        file="common/normalise.py",
                        old="base = finite_or_zero(cute.arch.fmax(top, sink_log2))",
                        new="base = finite_or_zero(top)",
                    ),
                    Edit(
                        file="common/normalise.py",
                        old="        lse = sink\n        if top != -Float32.inf:\n",
                        new="        if whole == whole:\n",
                    ),
                ),
                check="parity",
                kinds=frozenset({"nan", "parity"}),
            )
            for arch, shape in (("sm_120a", "d64"), ("sm_100a", "d512"))
        ),
    ),
    Row(
        issue="NVIDIA/cudnn-frontend#1083",
        bug_class="numerics-edge",
        wrong="With one query a sequence, LSE is written for the first head of every "
        "group only.",
        scenarios=("one-query",),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="one-query",
                edits=(Edit(file="common/normalise.py", old=_STORE, new=_KEYED_LSE),),
                check="parity",
                kinds=frozenset({"unwritten", "nan", "parity"}),
            )
            for arch, shape in (
                ("sm_120a", "d128"),
                ("sm_100a", "d64"),
                ("sm_100a", "e5m2d64"),
            )
        ),
    ),
    Row(
        issue="NVIDIA/TransformerEngine#3528",
        bug_class="numerics-edge",
        wrong="Causal with -1 for no bound on the left becomes a band without keys: O "
        "is zero everywhere.",
        scenarios=("unbounded-left", "more-queries"),
        mutants=(
            Mutant(
                arch="sm_120a",
                shape="d64",
                scenario="unbounded-left",
                edits=(
                    Edit(
                        file="plan.py",
                        old="    has_left = spec.window_left is not None\n",
                        new="    has_left = True\n",
                    ),
                    Edit(
                        file="execute.py",
                        old="Int32(min(spec.window_left or 0, MAX_TOKENS))",
                        new="Int32(-1)",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity"}),
            ),
        ),
    ),
    Row(
        issue="Dao-AILab/flash-attention#2402b",
        bug_class="numerics-edge",
        wrong="A function of the scores is multiplied by the scores instead of a "
        "constant.",
        scenarios=("sharp",),
        mutants=(
            Mutant(
                arch="sm_120a",
                shape="d128",
                scenario="sharp",
                edits=(
                    Edit(
                        file="execute.py",
                        old="Float32(abs(spec.softmax_scale) * math.log2(math.e))",
                        new="Float32(spec.softmax_scale**2 * math.log2(math.e))",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity"}),
            ),
        ),
        counterpart="The report is of a soft cap, which our kernels do not have; what "
        "they do have is a factor on the scores, here applied twice.",
    ),
    Row(
        issue="-inf minus -inf",
        bug_class="numerics-edge",
        wrong="A row that has met no key yet subtracts its maximum, -inf, from itself.",
        scenarios=("masked-tiles", "more-queries", "negative-sink"),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="masked-tiles",
                edits=(
                    Edit(
                        file="common/softmax.py",
                        old="    return cutlass.select_(value == -Float32.inf, "
                        "Float32(0.0), value)\n",
                        new="    return value\n",
                    ),
                ),
                check="parity",
                kinds=frozenset({"nan"}),
            )
            for arch, shape in (
                ("sm_120a", "d64"),
                ("sm_120a", "e5m2d256"),
                ("sm_100a", "d128"),
            )
        ),
        counterpart="Not of one report: the class.",
    ),
    Row(
        issue="window off by one",
        bug_class="numerics-edge",
        wrong="The tiles that a window needs are counted without its last key.",
        scenarios=tuple(f"window-{left}" for left in TILE_EDGES),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="window-1",
                edits=(
                    Edit(
                        file="common/bounds.py",
                        old="    begin = cutlass.min(lowest_first // n, end)\n",
                        new="    begin = cutlass.min((lowest_first + 1) // n, end)\n",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity"}),
            )
            for arch, shape in (("sm_120a", "d128"), ("sm_100a", "d256"))
        ),
        counterpart="Not of one report: the class.",
    ),
)
