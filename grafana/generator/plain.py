"""The dashboard of an experiment beside the loop: messages, latencies and figures of each cell, from its table."""

from generator.curves import cdf_panel
from generator.dashboard import Dashboard, choice, dashboard
from generator.panels import ROBOT_ERRORS, Panel, graph, messages
from generator.queries import STATISTICS, cdf, joined, newest_run, newest_runs, statistics
from generator.tables import matrix
from looplab.metrics.cells import shown
from looplab.spec.experiment import Experiment


def plain(experiment: Experiment) -> Dashboard:
    """Return the dashboard of one experiment."""
    board = _Board(experiment)
    figures = [board.figures()] if experiment.optional_part("live") else []
    own = f'{{experiment="{experiment.name}"}}'
    return dashboard(
        f"looplab-{experiment.name}",
        experiment.name.capitalize(),
        f"{experiment.title}.",
        [
            (4, [board.messages()]),
            (12, [board.curves(), board.table()], 10, 14),
            (8, [*figures, board.rates()]),
        ],
        [
            choice("scenario", "Scenario", f"lab_run_info{own}", "The newest run of each is shown.", ["All"]),
            choice("fidelity", "Fidelity", f"lab_run_info{own}", "thesis: as published.", ["All"]),
            choice("cell", "Cell", f"lab_messages_sent_total{own}", "What the table calls a line.", ["All"]),
            *(choice("figure", "Figure", f"lab_figure{own}", "Drawn over time.", ["All"]) for _ in figures),
        ],
        refresh="5s",
        since="1h",
    )


class _Board:
    """The panels of one experiment."""

    def __init__(self, experiment: Experiment) -> None:
        own = f'experiment="{experiment.name}"'
        self._own = own
        self._chosen = f'{own},scenario=~"$scenario",fidelity=~"$fidelity",cell=~"$cell"'
        self._condition = newest_runs(own)
        first = shown(experiment.cell)[0]
        self._metric, self._about = str(first.metric), first.about
        self._empty = f"nothing measured yet: ./lab run {experiment.name} --quick"

    def messages(self) -> Panel:
        return messages("The newest run", newest_run(self._own), self._empty)

    def curves(self) -> Panel:
        curves = self._named(cdf(f'{self._chosen},metric="{self._metric}"', self._condition))
        return cdf_panel(
            f"CDF of {self._metric}",
            "The share of a cell's messages within x. Choose few cells at the top. A curve ends below 1 where messages "
            "are lost.",
            f"max by (series, le) ({curves})",
            x_label=f"{self._metric}: {self._about}",
            x_min_s=None,
            x_max_s=None,
            overrides=[],
            no_value=self._empty,
        )

    def table(self) -> Panel:
        rows = statistics(f'{self._chosen},metric="{self._metric}"', self._condition)
        return matrix(
            f"{self._metric} of each cell",
            "From the histograms, at most 5 % off; n counts the answers. The report has exact figures and verdicts.",
            f"max by (series, stat) ({self._named(f'({rows})')})",
            columns=STATISTICS,
            row_title="cell",
            row_px=260,
            no_value=self._empty,
        )

    def figures(self) -> Panel:
        return graph(
            "Figures",
            "What the cells show beside messages and latencies, in the unit that run.json has. Choose one at the top.",
            {"{{figure}}: {{cell}}": f'lab_figure{{{self._chosen},figure=~"$figure"}}'},
            label="value",
            signed=True,
            no_value=self._empty,
        )

    def rates(self) -> Panel:
        return graph(
            "Messages a second",
            "Sent, and by outcome, over the last ten seconds.",
            {
                "sent": f"sum(rate(lab_messages_sent_total{{{self._own}}}[10s]))",
                "{{outcome}}": f"sum by (outcome) (rate(lab_messages_total{{{self._own}}}[10s]))",
            },
            label="messages a second",
            overrides=[ROBOT_ERRORS],
            no_value=self._empty,
        )

    def _named(self, expression: str) -> str:
        return joined(expression, "series", ["scenario", "fidelity", "cell"], "$1 $2 $3")
