"""The dashboard of an experiment without a module of its own: messages, latencies and figures of each cell."""

from collections.abc import Sequence

from generator.dashboard import GRID_WIDTH, Dashboard, dashboard
from generator.panels import Panel, graph
from looplab.metrics.cells import figures
from looplab.spec.experiment import Experiment


def dashboards(experiment: Experiment, first: Sequence[Panel] = ()) -> dict[str, Dashboard]:
    """Return the dashboard by its file name; its `first` panels are the experiment's own."""
    panels = [*first, *_panels(experiment)]
    rows = [(9, [(GRID_WIDTH // 2, one) for one in panels[at : at + 2]]) for at in range(0, len(panels), 2)]
    name = experiment.name
    made = dashboard(f"looplab-{name}", name.capitalize(), f"{experiment.title}.", rows, [], refresh="5s", since="1h")
    return {f"{name}.json": made}


def _panels(experiment: Experiment) -> list[Panel]:
    cell, empty = experiment.cell, f"nothing measured yet: ./lab run {experiment.name} --quick"
    named = " ".join(f"{{{{{name}}}}}" for name in ("scenario", *(key.name for key in cell.key_columns())))
    family = cell.family
    # With the cells of every kept run, a legend takes half a panel.
    newest = f"topk(1, max by (scenario, fidelity) ({family}_cell_run_started_timestamp_seconds))"
    shown = [
        ("Messages", cell.total().about, named, "messages_sent_total", "short"),
        ("Latency", "mean of each latency of a cell", f"{named} {{{{metric}}}}", "latency_mean_seconds", "s"),
        *(
            ((one.heading or one.name).capitalize(), one.about, named, f"{one.metric}", "short")
            for one in figures(cell)
        ),
    ]
    return [
        graph(
            title,
            f"Of each cell of the newest run: {about}.",
            {legend: f"{family}_{metric} and on (scenario, fidelity) {newest}"},
            # A longer one is cut by the panel's height.
            label=about if len(about) < 36 else title.lower(),
            unit=unit,
            no_value=empty,
        )
        for title, about, legend, metric, unit in shown
    ]
