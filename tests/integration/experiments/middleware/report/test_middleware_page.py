"""The page of the report on the middleware: whole, and it needs nothing else."""

from pathlib import Path

from support.reports import Page, rows, write
from support.simulated_middleware_runs import cores_cells, nodes_cells, write_middleware_run
from support.terminal import printing_to_a_terminal


def test_the_page_is_whole_and_asks_for_nothing(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    write_middleware_run(results, cells=cores_cells((30, 60)), repetitions=3)
    write_middleware_run(results, "middleware-nodes", cells=nodes_cells((60, 120)), repetitions=3)
    with printing_to_a_terminal() as said:
        assert write(results, out) == 0
    page = Page(out / "middleware.html")
    assert len(page.alternatives) == 12
    assert all(not alternative or "devices" in alternative for alternative in page.alternatives)
    assert "916,281" in page.text
    assert len(rows(out / "middleware-cells.csv")) == 8 + 8
    assert len(rows(out / "middleware-repetitions.csv")) == 3 * 16
    assert len({row["finding"] for row in rows(out / "middleware-findings.csv")}) == 8
    assert max(map(len, said.getvalue().splitlines()[:-1])) <= 80
