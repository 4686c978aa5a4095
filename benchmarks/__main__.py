"""Print every table: `python -m benchmarks`."""

from __future__ import annotations

from benchmarks import cases, instructions, public

print("## Instruction families\n")
instructions.show(instructions.measure())
print("\n## Cases of the SM120 kernel\n")
cases.show(cases.measure())
print("\n## flash-attn-4 on SM100: 256 tokens, 32 heads, head dim 128\n")
public.show(public.measure())
print("\n## First build of the core, and start-up with warm caches\n")
cases.show_start(cases.start())
