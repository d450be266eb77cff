"""The experiments of this lab: the only list of them. Nothing below this package imports it; it is handed in."""

from looplab.run.experiment import Experiments

EXPERIMENTS = Experiments(
    {
        "loop": "looplab.experiments.loop",
        "qos-delay": "looplab.experiments.qos_delay",
        "middleware": "looplab.experiments.middleware",
    },
    # run.json of the control loop has no key `experiment`.
    default="loop",
)
