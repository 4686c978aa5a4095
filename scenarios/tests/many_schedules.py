"""One call under many schedules, whose results have to be the same bits."""

from sidestream.harness.checks import determinism, execution
from sidestream.harness.exec.machine import Options
from sidestream.harness.run.case import CaseRun

SEEDS = range(1, 21)


class ManySchedules(CaseRun):
    """One call under round-robin and then under every seed, the strictest order."""

    def _execute(self, call, prepared, log, stream):
        self.asked = call.launches(prepared)
        for seed in (0, *SEEDS):
            options = Options(
                seed=seed,
                sms=self.settings.sms,
                max_smem=self.bench.device().chip.smem_per_block,
                tensor_memory_check=True,
                isa_order=True,
            )
            self.runs.append(
                call.execute(
                    prepared,
                    label=f"seed {seed}",
                    pattern="random",
                    options=lambda options=options: options,
                )
            )
        kernel = self.settings.kernel
        return [
            execution.check(self.runs, kernel=kernel),
            determinism.check(self.runs, rows=self.rows, kernel=kernel),
        ]
