"""The experiments of this lab: the only list of them. Nothing below this package imports it; it is handed in."""

from looplab.spec.experiment import Experiments

EXPERIMENTS = Experiments(
    {
        "loop": "looplab.experiments.loop",
        "middleware": "looplab.experiments.middleware",
        "qos-delay": "looplab.experiments.qos_delay",
        "twin": "looplab.experiments.twin",
        "asip": "looplab.experiments.asip",
        "balance": "looplab.experiments.balance",
        "own": "looplab.experiments.own",
    },
    # run.json of the control loop has no key `experiment`.
    default="loop",
)
