"""Named barriers of a CTA: bar.sync, barrier.sync, bar.arrive, bar.red."""

from __future__ import annotations

from sidestream.scenarios.litmus.twin import Twin, fault, smem

_TITLE = "Parallel Synchronization and Communication Instructions: bar, barrier"
_STORE, _LOAD = "st.shared.b32 [%xl], 1;\n", "ld.shared.b32 %r1, [%xl];\n"
_PAIR = smem("st.shared.b32", "ld.shared.b32")

TWINS = (
    Twin(
        name="store_sync_load",
        rule="B1",
        title=_TITLE,
        warps=(_STORE + "<op>", "<op>" + _LOAD),
        op="bar.sync 1, 64;\n",
        found=_PAIR,
    ),
    Twin(
        name="load_sync_store",
        rule="B1",
        title=_TITLE,
        warps=(_LOAD + "<op>", "<op>" + _STORE),
        op="barrier.sync 1, 64;\n",
        found=_PAIR,
    ),
    Twin(
        name="store_sync_store",
        rule="B1",
        title=_TITLE,
        warps=(_STORE + "<op>", "<op>" + _STORE),
        op="bar.sync 0;\n",
        found=smem("st.shared.b32", "st.shared.b32"),
    ),
    Twin(
        name="producer_arrives_consumer_syncs",
        rule="B1",
        title=_TITLE,
        warps=(_STORE + "bar.arrive <op>, 64;\n", "bar.sync 1, 64;\n" + _LOAD, "bar.arrive 1, 64;\nbar.sync 2, 64;\n",),
        op="1",
        broken="2",
        found=_PAIR,
    ),
)
