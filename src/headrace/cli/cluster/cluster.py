"""`headrace cluster`: try a cluster on this machine, look at one, and move its partitions."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.cluster.reassigning import DryRun, Throttle, run_plan
from headrace.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Yes, open_wire_admin
from headrace.cli.output import iso_time, remark, show_json, show_table
from headrace.cli.way import use_profile

if TYPE_CHECKING:
    from headrace.cli.cluster.secure_cluster import ClusterSecurity
    from headrace.controller.balance import Plan
    from headrace.controller.image import ClusterImage

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Try a cluster here, look at one, move its partitions.")

DEFAULT_DIRECTORY = Path("cluster")
COLUMNS = ("broker", "address", "rack", "state", "leads", "replicas", "controller", "why")

Directory = Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="Where the cluster's data lives.")]


@app.command(
    epilog="Example: [bold]headrace cluster up --brokers 3[/bold], then in another terminal [bold]headrace topic list[/bold]"
)
def up(
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, max=20, help="How many brokers.")] = 3,
    directory: Directory = DEFAULT_DIRECTORY,
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="The first broker's port; the others follow.")] = 9092,
    secure: Annotated[
        bool, typer.Option("--secure", help="With TLS, users and rules: makes an authority, certificates and profiles.")
    ] = False,
) -> None:
    """Start etcd and brokers on this machine, and show how they are until Ctrl-C.  Starting again finds the same data."""
    from headrace.cli.cluster.local_cluster import LocalCluster

    with LocalCluster(directory, port) as cluster:
        cluster.start(brokers, secure=secure)
        remark(
            f"{cluster.broker_count} broker(s) serve at {cluster.bootstrap}; their data and logs are in {directory.absolute()}."
        )
        if cluster.security is not None:
            _tell_of_security(cluster.security)
        else:
            first = cluster.bootstrap.partition(",")[0]
            if first != DEFAULT_BOOTSTRAP:
                remark(f"In another terminal, first: export HEADRACE_BOOTSTRAP={first}")
            remark("Try: headrace topic create hello --partitions 3    and    headrace cluster status")
        cluster.watch(_live_view(cluster.bootstrap))


def _tell_of_security(security: "ClusterSecurity") -> None:
    from headrace.cli.cluster.secure_cluster import ADMIN, APPLICATION, PREFIX

    admin, application = security.profile(ADMIN), security.profile(APPLICATION)
    use_profile(str(admin))
    remark(
        f"Clients need TLS and a password. {admin} is a profile of the administrator, {application} one of an application, which"
    )
    remark(
        f"may use topics, groups and transactions whose names begin with {PREFIX}. Both hold passwords; only you can read them."
    )
    remark(f"Try: headrace --profile {admin} cluster status    and    headrace --profile {application} produce {PREFIX}hello")


@app.command()
def add(directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Start one more broker for a cluster made by `up`, in the foreground.  Give it work with `headrace cluster rebalance`."""
    from headrace.cli.cluster.local_cluster import LocalCluster

    LocalCluster(directory).serve_one_more()


@app.command()
def status(as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Show every broker as HEALTHY, DEGRADED or DOWN, and what is wrong."""
    from headrace.cli.cluster.moves import broker_statuses, image_of, moving, unclean_elections, under_replicated

    with open_wire_admin(bootstrap) as admin:
        statuses, lacking, under_way = broker_statuses(admin), under_replicated(image_of(admin)), sorted(moving(admin))
        unclean = unclean_elections(admin)
    if as_json:
        show_json(
            {
                "brokers": [asdict(each) for each in statuses],
                "under_replicated": lacking,
                "moving": [f"{topic}-{index}" for topic, index in under_way],
                "unclean_elections": asdict(unclean),
            }
        )
        return
    show_table(COLUMNS, _rows(bootstrap))
    for title, names in (("under-replicated", lacking), ("moving", [f"{topic}-{index}" for topic, index in under_way])):
        if names:
            more = f" and {len(names) - 10} more" if len(names) > 10 else ""
            remark(f"{title}: {', '.join(names[:10])}{more}")
    if unclean.last is not None:
        last = unclean.last
        remark(
            f"unclean elections: {unclean.count}; the last gave {last.topic}-{last.partition} to broker {last.leader}"
            f" at {iso_time(last.at_ms)}, and records may have been lost"
        )


@app.command()
def drain(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="The broker to empty.")],
    throttle: Throttle = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Move every replica off a broker, so that it can be taken away."""
    from headrace.controller.balance import drain as plan_drain
    from headrace.controller.balance import require_known

    def plan(image: "ClusterImage") -> "Plan":
        require_known(image, broker)
        return plan_drain(image, frozenset({broker}))

    run_plan(bootstrap, plan, throttle, dry_run, yes)


@app.command()
def replace(
    old: Annotated[int, typer.Argument(metavar="OLD", help="The broker to replace; it may be dead.")],
    new: Annotated[int, typer.Argument(metavar="NEW", help="The broker that takes over.")],
    throttle: Throttle = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Give everything that one broker holds to another."""
    from headrace.controller.balance import replace_broker, require_known

    def plan(image: "ClusterImage") -> "Plan":
        require_known(image, old)
        return replace_broker(image, old, new)

    run_plan(bootstrap, plan, throttle, dry_run, yes)


@app.command()
def rebalance(
    throttle: Throttle = None, dry_run: DryRun = False, yes: Yes = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> None:
    """Even out how much the brokers hold, moving as little as possible: after brokers were added, for instance."""
    from headrace.controller.balance import rebalance as plan_rebalance

    run_plan(bootstrap, plan_rebalance, throttle, dry_run, yes)


@app.command()
def forget(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="A broker that is gone for good and holds nothing.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove a stopped broker from the cluster, once it has been drained or replaced."""
    from headrace.cli.cluster.moves import forget_broker

    with open_wire_admin(bootstrap) as admin:
        forget_broker(admin, broker)
    remark(f"Broker {broker} is forgotten.")


def _rows(bootstrap: str) -> list[tuple[object, ...]]:
    from headrace.cli.cluster.moves import broker_statuses

    with open_wire_admin(bootstrap) as admin:
        return [
            (s.broker_id, s.address, s.rack, s.state, s.leads, s.replicas, "*" if s.is_controller else "", s.reason)
            for s in broker_statuses(admin)
        ]


def _live_view(bootstrap: str) -> Callable[[], tuple[tuple[str, ...], list[tuple[object, ...]]]]:
    return lambda: (COLUMNS, _rows(bootstrap))
