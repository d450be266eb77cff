"""The dashboard of an experiment beside the loop: messages, latencies and figures of each cell, from its table."""

from typing import Any

from generator.curves import CELLS_APART, cdf_panel
from generator.dashboard import Dashboard, choice, dashboard
from generator.panels import graph, messages
from generator.queries import cdf, named_cells, newest_run, newest_runs, statistics
from generator.tables import matrix
from looplab.metrics.cells import shown
from looplab.spec.experiment import Experiment


def plain(experiment: Experiment) -> Dashboard:
    """Return the dashboard of one experiment."""
    own = f'experiment="{experiment.name}"'
    chosen = f'{own},scenario=~"$scenario",fidelity=~"$fidelity",cell=~"$cell"'
    column, newest = shown(experiment.cell)[0], newest_runs(own)
    latencies = f'{chosen},metric="{column.metric}"'
    empty = f"nothing measured yet: ./lab run {experiment.name} --quick"
    curves = cdf_panel(
        f"CDF of {column.metric}",
        "The share of a cell's messages within x. Choose few cells at the top. A curve ends below 1 where messages are "
        "lost.",
        f"max by (series, le) ({named_cells(cdf(latencies, newest))})",
        x_label=f"{column.metric}: {column.about}",
        x_min_s=None,
        x_max_s=None,
        overrides=CELLS_APART,
        no_value=empty,
    )
    table = matrix(
        f"{column.metric} of each cell",
        "From the histograms, at most 5 % off; n counts the answers. The report has exact figures and verdicts.",
        f"max by (series, stat) ({named_cells(f'({statistics(latencies, newest)})')})",
        row_px=370,
        no_value=empty,
    )
    figures = graph(
        "Figures",
        "What the cells show beside messages and latencies, in the unit that run.json has. Choose one at the top.",
        {"{{figure}}: {{cell}}": f'lab_figure{{{chosen},figure=~"$figure"}}'},
        label="value",
        signed=True,
        no_value=empty,
    )
    rates = graph(
        "Messages a second",
        "Sent, and by outcome, over the last ten seconds.",
        {
            "sent": f"sum(rate(lab_messages_sent_total{{{own}}}[10s]))",
            "{{outcome}}": f"sum by (outcome) (rate(lab_messages_total{{{own}}}[10s]))",
        },
        label="messages a second",
        no_value=empty,
    )
    live, watches = bool(experiment.optional_part("live")), experiment.parameters.watches
    so_far = messages("The newest run", newest_run(own), empty, progress=not watches)
    rows: list[tuple[Any, ...]] = [(5, [so_far]), (11, [curves, table], 9, 15)]
    # What it sees of another's messages comes at the end, all at once.
    rows += [] if watches else [(8, [figures, rates] if live else [rates])]
    choices = [
        choice("scenario", "Scenario", f"lab_run_info{{{own}}}", "The newest run of each is shown.", ["All"]),
        choice("fidelity", "Fidelity", f"lab_run_info{{{own}}}", "thesis: as published.", ["All"]),
        choice("cell", "Cell", f"lab_messages_sent_total{{{own}}}", "What the table calls a line.", ["All"]),
        choice("figure", "Figure", f"lab_figure{{{own}}}", "Drawn over time.", ["All"]),
    ]
    # An experiment without figures while it runs has no choice of them.
    choices = choices if live else choices[:-1]
    title, about = experiment.name.capitalize(), f"{experiment.title.rstrip('.?')}."
    name = f"looplab-{experiment.name}"
    return dashboard(name, title, about, rows, choices, refresh="5s", since="1h")
