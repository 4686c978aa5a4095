"""A small scenario, and its case through an implementation that knows the answer."""

from oracle_driver import Oracle, PreparedOracle

from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.settings import Settings
from sidestream.scenarios.scenario import Scenario

SCENARIO = Scenario(
    name="small",
    description="Two sequences around an empty one, with a tail.",
    lengths_q=(5, 0, 9, 4),
    lengths_kv=(7, 3, 6, 4),
    tail_q=3,
    tail_kv=2,
    head_dim=16,
    causal="bottom_right",
    lse="head_major",
    lse_slack=2,
    out_layout="padded",
    stream="side",
)


def outcome_of(make=PreparedOracle, scenario=SCENARIO, driver=None, **settings):
    bench = Bench(settings=Settings(**settings), driver=driver or Oracle(make))
    return run_case(bench, scenario)
