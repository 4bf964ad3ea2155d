"""Carrying out a plan that moves replicas: shown, confirmed, throttled, and followed by a bar until all copies are made."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.connection import open_wire_admin
from headrace.cli.failure import Failure
from headrace.cli.output import confirm, counted, remark, show_table

if TYPE_CHECKING:
    from headrace.cli.cluster.moves import CopyProgress
    from headrace.controller.balance import Plan
    from headrace.controller.image import ClusterImage

Throttle = Annotated[
    int | None, typer.Option("--throttle", metavar="BYTES", min=1, help="The most bytes per second copied by each broker.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would move, and move nothing.")]


def run_plan(bootstrap: str, make_plan: "Callable[[ClusterImage], Plan]", throttle: int | None, dry_run: bool, yes: bool) -> None:
    """Make a plan for the cluster as it is, and have it done."""
    from headrace.cli.cluster.moves import begin_moves, clear_throttle, image_of, prefer_leaders, set_throttle, wait_for_moves
    from headrace.model.errors import RequestError

    with open_wire_admin(bootstrap) as admin:
        image = image_of(admin)
        try:
            plan = make_plan(image)
        except RequestError as error:
            raise Failure(error.message or error.code.name) from None
        if not plan.targets:
            remark("Nothing to move.")
            return
        if dry_run:
            _show_plan(image, plan)
            return
        partitions = counted(len(plan.targets), "partition")
        confirm(f"Copy {counted(plan.replicas_moved, 'replica')}, and change the replicas of {partitions}?", yes=yes)
        if throttle is not None:
            set_throttle(admin, image, plan, throttle)
        try:
            begin_moves(admin, plan)
            _with_progress_bar(lambda advance: wait_for_moves(admin, image, plan, advance))
            prefer_leaders(admin, plan)
        except KeyboardInterrupt:
            # The throttle goes with this command; the moves go on without either.
            unthrottled = ", unthrottled" if throttle is not None else ""
            raise Failure(f"stopped watching; the moves go on{unthrottled}: see `headrace cluster status`.") from None
        finally:
            if throttle is not None:
                clear_throttle(admin, plan)
    if plan.replicas_moved:
        remark(f"Copied {counted(plan.replicas_moved, 'replica')} of {counted(len(plan.targets), 'partition')}.")
    else:
        remark(f"Chose who leads {counted(len(plan.targets), 'partition')}; nothing had to be copied.")


def change_replication_factor(bootstrap: str, topic: str, factor: int, throttle: int | None) -> None:
    """Make or drop copies of every partition of a topic."""
    from headrace.controller.balance import with_factor

    run_plan(bootstrap, lambda image: with_factor(image, topic, factor), throttle, dry_run=False, yes=True)


def _show_plan(image: "ClusterImage", plan: "Plan") -> None:
    rows = [
        (f"{topic}-{index}", _listed(image.topics[topic].partitions[index].replicas), _listed(replicas))
        for (topic, index), replicas in sorted(plan.targets.items())
    ]
    show_table(("partition", "replicas now", "replicas then"), rows)


def _listed(brokers: tuple[int, ...]) -> str:
    return ", ".join(map(str, brokers))


def _with_progress_bar(function: "Callable[[Callable[[CopyProgress], None]], None]") -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.fields[partitions]} partitions"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("copying", partitions="0", total=None)

        def show(progress: "CopyProgress") -> None:
            partitions = f"{progress.partitions_done}/{progress.partitions}"
            # Until something is known to be there, no number of bytes is the whole.
            bar.update(task, completed=progress.bytes_done, total=progress.bytes or None, partitions=partitions)

        function(show)
